#pragma once

// The lifetime machinery, for frameworks that have their own arrays: open a device, make a Context
// over it, record into Streams. Link holdfast::runtime.
#include <holdfast/hal/devices.h>
#include <holdfast/runtime/context.h>
#include <holdfast/runtime/program_recorder.h>
#include <holdfast/runtime/stream.h>
#include <holdfast/version.h>
