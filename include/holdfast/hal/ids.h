#pragma once

#include "holdfast/base/id.h"

#pragma GCC visibility push(default)

namespace holdfast::hal {

using DeviceId = Id<struct DeviceTag>;
using TimelineId = Id<struct TimelineTag>;
using BufferId = Id<struct BufferTag>;
using ResourceId = Id<struct ResourceTag>;
using ListId = Id<struct ListTag>;
// A sequence of lists that are submitted to one queue in the order in which they were opened: a
// stream.
using LaneId = Id<struct LaneTag>;

}  // namespace holdfast::hal

#pragma GCC visibility pop
