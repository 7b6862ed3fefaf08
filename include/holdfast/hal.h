#pragma once

// The device contract, for authors of a backend: derive from Device, Queue, Buffer, Pipeline and
// Program, and from Timeline unless HostTimeline serves. Link holdfast::runtime.
#include <holdfast/hal/buffer.h>
#include <holdfast/hal/close_once.h>
#include <holdfast/hal/command_list.h>
#include <holdfast/hal/device.h>
#include <holdfast/hal/devices.h>
#include <holdfast/hal/host_timeline.h>
#include <holdfast/hal/list_damage.h>
#include <holdfast/hal/matrix_products.h>
#include <holdfast/hal/pipeline.h>
#include <holdfast/hal/program.h>
#include <holdfast/hal/queue.h>
#include <holdfast/version.h>
