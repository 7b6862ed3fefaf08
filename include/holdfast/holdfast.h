#pragma once

// All of Holdfast: lazy arrays, kernels written as text, and the runtime below them. Link
// holdfast::holdfast.
#include <holdfast/array.h>
#include <holdfast/compile.h>
#include <holdfast/creation.h>
#include <holdfast/device.h>
#include <holdfast/dlpack.h>
#include <holdfast/eval.h>
#include <holdfast/fast.h>
#include <holdfast/host_view.h>
#include <holdfast/kernel.h>
#include <holdfast/native.h>
#include <holdfast/npy.h>
#include <holdfast/operation.h>
#include <holdfast/ops.h>
#include <holdfast/scans.h>
#include <holdfast/sorting.h>
#include <holdfast/stream.h>
#include <holdfast/version.h>
#include <holdfast/views.h>
