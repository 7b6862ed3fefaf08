#include "holdfast/runtime/map.h"

#include "holdfast/runtime/context.h"
#include "holdfast/runtime/core.h"

namespace holdfast::runtime {

Map::Map(Ref<Context> context, Ref<hal::Allocation> allocation,
         hal::AccessHistory::HostAccess access)
    : context_(std::move(context)),
      allocation_(std::move(allocation)),
      access_(std::move(access)),
      bytes_(allocation_->host_pointer() + access_.range.offset.value, access_.range.length.value) {
  if (hal::Probe* probe = allocation_->probe()) {
    probe->host_access_begins(*allocation_, access_.range, access_.access, access_.name);
  }
}

Map::Map(Map&& other) noexcept
    : context_(std::move(other.context_)),
      allocation_(std::move(other.allocation_)),
      access_(std::move(other.access_)),
      bytes_(std::exchange(other.bytes_, {})) {}

Map& Map::operator=(Map&& other) noexcept {
  if (this != &other) {
    end();
    context_ = std::move(other.context_);
    allocation_ = std::move(other.allocation_);
    access_ = std::move(other.access_);
    bytes_ = std::exchange(other.bytes_, {});
  }
  return *this;
}

Map::~Map() { end(); }

void Map::end() noexcept {
  if (!allocation_) return;
  if (hal::Probe* probe = allocation_->probe()) {
    probe->host_access_ends(*allocation_, access_.range, access_.access);
  }
  context_->core().end_host_access(*allocation_, access_);
  allocation_.reset();
  context_.reset();
}

}  // namespace holdfast::runtime
