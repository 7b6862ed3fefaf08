#include "holdfast/dlpack.h"

#include "holdfast/c/arguments.h"

namespace holdfast::c {
namespace {

// In the order of hf_copying.
constexpr Copying kCopyings[] = {Copying::if_needed, Copying::always, Copying::never};
static_assert(std::size(kCopyings) == HF_COPY_NEVER + 1);

// A caller's tensor, which stays the caller's unless from_dlpack takes it.
template <typename Tensor, typename Owner>
class Borrowed {
 public:
  explicit Borrowed(Tensor* tensor) : owner_(&needed(tensor, "tensor")) {}
  ~Borrowed() { (void)owner_.release(); }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  Owner& owner() noexcept { return owner_; }

 private:
  Owner owner_;
};

}  // namespace
}  // namespace holdfast::c

using namespace holdfast::c;
using holdfast::DlpackTensor;
using holdfast::DlpackTensorVersioned;

hf_status hf_array_to_dlpack(hf_array* array, hf_copying copying, hf_timeout timeout,
                             DLManagedTensor** tensor) {
  return call(__func__, [&] {
    needed(tensor, "tensor");
    *tensor = holdfast::to_dlpack(value_of(array, "array"), entry(kCopyings, copying, "hf_copying"),
                                  limit_of(timeout))
                  .release();
  });
}

hf_status hf_array_to_dlpack_versioned(hf_array* array, hf_copying copying, hf_timeout timeout,
                                       DLManagedTensorVersioned** tensor) {
  return call(__func__, [&] {
    needed(tensor, "tensor");
    *tensor =
        holdfast::to_dlpack_versioned(value_of(array, "array"),
                                      entry(kCopyings, copying, "hf_copying"), limit_of(timeout))
            .release();
  });
}

hf_status hf_array_from_dlpack(DLManagedTensor* tensor, hf_copying copying, hf_stream* stream,
                               hf_array** array) {
  return give_array(__func__, array, [&] {
    Borrowed<DLManagedTensor, DlpackTensor> given(tensor);
    return holdfast::from_dlpack(std::move(given.owner()), entry(kCopyings, copying, "hf_copying"),
                                 on_of(stream));
  });
}

hf_status hf_array_from_dlpack_versioned(DLManagedTensorVersioned* tensor, hf_copying copying,
                                         hf_stream* stream, hf_array** array) {
  return give_array(__func__, array, [&] {
    Borrowed<DLManagedTensorVersioned, DlpackTensorVersioned> given(tensor);
    return holdfast::from_dlpack(std::move(given.owner()), entry(kCopyings, copying, "hf_copying"),
                                 on_of(stream));
  });
}
