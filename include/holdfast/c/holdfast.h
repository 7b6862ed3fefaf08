#pragma once

// All of Holdfast for C: lazy arrays, kernels written as text, devices and streams. Link
// holdfast::c. Begin with holdfast/c/base.h, which says what holds for every function.
#include "holdfast/c/array.h"
#include "holdfast/c/base.h"
#include "holdfast/c/device.h"
#include "holdfast/c/dlpack.h"
#include "holdfast/c/kernel.h"
#include "holdfast/c/ops.h"
