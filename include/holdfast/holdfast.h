#pragma once

// All of Holdfast that this version has: the runtime, and kernels written as text.
#include <holdfast/kernel.h>
#include <holdfast/runtime.h>
