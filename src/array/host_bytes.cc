#include "holdfast/array/host_bytes.h"

#include "holdfast/array/node.h"
#include "holdfast/eval.h"
#include "holdfast/views.h"

namespace holdfast::array {

void read_bytes(const Array& array, std::span<std::byte> to, const WaitLimit& limit) {
  const Array rows = contiguous(array);
  async_eval(rows);
  const Value& value = *rows.value();
  const Bytes offset = size_of(rows.dtype()) * static_cast<uint64_t>(rows.layout().offset);
  value.node().stream()->stream()->readback(value.memory(), offset, to, limit);
}

std::vector<std::byte> host_bytes(const Array& array) {
  std::vector<std::byte> bytes(array.nbytes().value);
  read_bytes(array, bytes);
  return bytes;
}

}  // namespace holdfast::array
