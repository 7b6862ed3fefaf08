#pragma once

// Kernels written as text: define one, launch it on a Stream. Link holdfast::kernel.
#include <holdfast/kernel/compilers.h>
#include <holdfast/kernel/launch.h>
#include <holdfast/runtime.h>
