#include "holdfast/hal/allocation.h"

#include <fmt/format.h>

#include "holdfast/base/sync/recycled_memory.h"

namespace holdfast::hal {

const char* to_string(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::device: return "device";
    case MemoryKind::upload: return "upload";
    case MemoryKind::readback: return "readback";
  }
  return "unknown";
}

const char* to_string(Access access) {
  switch (access) {
    case Access::read: return "read";
    case Access::write: return "write";
    case Access::read_write: return "read-write";
  }
  return "unknown";
}

Allocation::Allocation(Ref<Buffer> buffer, ByteRange range, std::string name, void* range_tag,
                       std::source_location site)
    : Allocation(std::move(buffer), range, std::move(name), range_tag, site, Seen::yes) {}

Allocation::Allocation(Ref<Buffer> buffer, ByteRange range, std::string name, void* range_tag,
                       std::source_location site, Seen seen)
    : Resource(buffer->device(), std::move(name)),
      buffer_(std::move(buffer)),
      range_(range),
      range_tag_(range_tag),
      site_(site),
      seen_(seen),
      history_(id()) {
  if (seen_ == Seen::no || !buffer_->probe()) return;
  set_probe(buffer_->probe());
  probe()->born(*this);
}

Allocation::Allocation(const Part& of, std::string&& name)
    : Resource(of.buffer.device(), std::move(name),
               of.buffer.probe() ? ResourceId::next() : next_id_of_thread()),
      buffer_(&of.buffer),
      range_(of.range),
      range_tag_(of.range_tag),
      site_(of.site),
      seen_(Seen::yes),
      history_(id()) {
  count_first_user();
  if (!buffer_->probe()) return;
  set_probe(buffer_->probe());
  probe()->born(*this);
}

Ref<Allocation> Allocation::make(const Part& of, std::string&& name) {
  return Ref<Allocation>::adopt(new Allocation(of, std::move(name)));
}

Allocation::~Allocation() = default;

void* Allocation::operator new(size_t bytes) { return RecycledMemory<Allocation>::take(bytes); }
void Allocation::operator delete(void* block) noexcept { RecycledMemory<Allocation>::give(block); }

Ref<Allocation> Allocation::whole(Ref<Buffer> buffer) {
  const ByteRange all{{}, buffer->size()};
  std::string name = buffer->name();
  return make_ref<Allocation>(std::move(buffer), all, std::move(name), nullptr);
}

Ref<Allocation> Allocation::unseen(Ref<Buffer> buffer) {
  const ByteRange all{{}, buffer->size()};
  return Ref<Allocation>(new Allocation(std::move(buffer), all, {}, nullptr, {}, Seen::no));
}

std::byte* Allocation::host_pointer() const noexcept {
  std::byte* block = buffer_->host_pointer();
  return block == nullptr ? nullptr : block + range_.offset.value;
}

uint64_t Allocation::device_address() const noexcept {
  const uint64_t block = buffer_->device_address();
  return block == 0 ? 0 : block + range_.offset.value;
}

std::string Allocation::describe() const { return describe(name(), id(), size()); }

std::string Allocation::describe(std::string_view name, ResourceId id, Bytes size) {
  const std::string what =
      name.empty() ? "an unnamed allocation" : fmt::format("allocation '{}'", name);
  return fmt::format("{} (id {}, {})", what, id.value, to_string(size));
}

void Allocation::on_dead() noexcept {
  if (seen_ == Seen::no) return;
  if (probe() != nullptr) probe()->died(*this);
  if (RangeOwner* owner = buffer_->owner()) owner->range_died(*this);
}

}  // namespace holdfast::hal
