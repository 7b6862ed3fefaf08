#pragma once

// All of Holdfast: lazy arrays, kernels written as text, and the runtime below them. Link
// holdfast::holdfast.
#include <holdfast/array/array.h>
#include <holdfast/array/creation.h>
#include <holdfast/array/device.h>
#include <holdfast/array/eval.h>
#include <holdfast/array/kernel.h>
#include <holdfast/array/npy.h>
#include <holdfast/array/operation.h>
#include <holdfast/array/ops.h>
#include <holdfast/array/stream.h>
#include <holdfast/array/views.h>
#include <holdfast/version.h>
