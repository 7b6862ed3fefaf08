#include "check.h"

// As dlpack/dlpack.h has them.
typedef struct {
  int32_t device_type;
  int32_t device_id;
} DLDevice;
typedef struct {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} DLDataType;
typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} DLTensor;
typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensor* self);
} DLManagedTensor;
typedef struct DLManagedTensorVersioned {
  uint32_t major, minor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned* self);
  uint64_t flags;
  DLTensor dl_tensor;
} DLManagedTensorVersioned;
enum { kDLCPU = 1, kDLROCM = 10, kDLInt = 0, kDLFloat = 2, kDLComplex = 5 };
enum { kReadOnly = 1, kCopied = 2 };

static const int64_t two_by_three[] = {2, 3};

static void exported_tensors_share_elements_and_keep_them(void) {
  hf_array* a = counted(HF_INT16, two_by_three, 2);
  hf_array* turned = NULL;
  OK(hf_transpose(a, NULL, 0, &turned));
  hf_array_release(a);
  DLManagedTensor* tensor = NULL;
  OK(hf_array_to_dlpack(turned, HF_COPY_NEVER, HF_FOREVER, &tensor));
  DLManagedTensorVersioned* versioned = NULL;
  OK(hf_array_to_dlpack_versioned(turned, HF_COPY_IF_NEEDED, HF_FOREVER, &versioned));
  hf_array_release(turned);
  const DLTensor* t = &tensor->dl_tensor;
  CHECK(t->device.device_type == kDLCPU && t->ndim == 2 && t->dtype.code == kDLInt);
  CHECK(t->dtype.bits == 16 && t->dtype.lanes == 1 && t->shape[0] == 3 && t->shape[1] == 2);
  const int16_t* elements = t->data;
  CHECK(elements[2 * t->strides[0] + t->strides[1]] == 5);
  CHECK(versioned->major == 1 && versioned->flags == kReadOnly);
  CHECK(versioned->dl_tensor.data == t->data);
  tensor->deleter(tensor);
  // The other one still keeps them.
  elements = versioned->dl_tensor.data;
  CHECK(elements[5] == 5);
  versioned->deleter(versioned);
}

static void copies_are_made_where_they_are_asked_for(void) {
  hf_array* a = counted(HF_FLOAT32, two_by_three, 2);
  DLManagedTensorVersioned* tensor = NULL;
  OK(hf_array_to_dlpack_versioned(a, HF_COPY_ALWAYS, HF_FOREVER, &tensor));
  CHECK(tensor->flags == kCopied);
  ((float*)tensor->dl_tensor.data)[0] = 100;
  tensor->deleter(tensor);
  SHOWS(a, "array([[0, 1, 2], [3, 4, 5]], dtype=float32)");
  const int64_t none[] = {0};
  OK(hf_zeros(none, 1, HF_FLOAT64, NULL, &a));
  OK(hf_array_to_dlpack_versioned(a, HF_COPY_NEVER, HF_FOREVER, &tensor));
  CHECK(tensor->dl_tensor.shape[0] == 0);
  hf_array* back = NULL;
  OK(hf_array_from_dlpack_versioned(tensor, HF_COPY_NEVER, NULL, &back));
  hf_array_release(back);
  hf_array_release(a);
}

static int given_back;
static void give_back(DLManagedTensor* self) {
  (void)self;
  __atomic_add_fetch(&given_back, 1, __ATOMIC_ACQ_REL);
}
static void give_back_versioned(DLManagedTensorVersioned* self) {
  (void)self;
  __atomic_add_fetch(&given_back, 1, __ATOMIC_ACQ_REL);
}

// 0 to 11 as a matrix of 3 and 4, or whatever the strides make of it.
static float memory[12];
static int64_t shape[2], strides[2];
static DLManagedTensor tensor_of(void) {
  given_back = 0;
  for (int i = 0; i < 12; ++i) memory[i] = (float)i;
  shape[0] = 3;
  shape[1] = 4;
  DLManagedTensor made = {
      {memory, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, NULL, 0}, NULL, give_back};
  return made;
}

static void wait_until_given_back(void) {
  hf_device* device = NULL;
  OK(hf_device_default(&device));
  while (__atomic_load_n(&given_back, __ATOMIC_ACQUIRE) == 0) {
    OK(hf_device_synchronize(device, HF_FOREVER));
  }
  CHECK(given_back == 1);
  hf_device_release(device);
}

static void imported_tensors_are_given_back_once(void) {
  DLManagedTensor tensor = tensor_of();
  hf_array *a = NULL, *sum = NULL;
  OK(hf_array_from_dlpack(&tensor, HF_COPY_NEVER, NULL, &a));
  OK(hf_reduce(HF_SUM, a, NULL, 0, 0, NULL, &sum));
  OK(hf_async_eval(&sum, 1));
  hf_array_release(a);  // in flight: the memory stays
  SHOWS(sum, "array(66, dtype=float32)");
  wait_until_given_back();

  DLManagedTensorVersioned versioned = {1, 1, NULL, give_back_versioned, 0, tensor_of().dl_tensor};
  OK(hf_array_from_dlpack_versioned(&versioned, HF_COPY_ALWAYS, NULL, &a));
  CHECK(given_back == 1);  // at once: it was copied
  memory[0] = 100;
  hf_array* row = NULL;
  OK(hf_index(a, 0, 0, &row));
  SHOWS(row, "array([0, 1, 2, 3], dtype=float32)");
  hf_array_release(a);

  tensor = tensor_of();
  tensor.deleter = NULL;
  OK(hf_array_from_dlpack(&tensor, HF_COPY_IF_NEEDED, NULL, &a));
  hf_array_release(a);
}

static void strides_and_offsets_of_tensors_count(void) {
  DLManagedTensor tensor = tensor_of();
  tensor.dl_tensor.strides = strides;
  tensor.dl_tensor.byte_offset = 44;  // the last element
  strides[0] = -4;
  strides[1] = -2;
  shape[1] = 2;
  for (hf_copying copying = HF_COPY_IF_NEEDED; copying <= HF_COPY_NEVER; ++copying) {
    given_back = 0;
    hf_array* a = NULL;
    OK(hf_array_from_dlpack(&tensor, copying, NULL, &a));
    SHOWS(a, "array([[11, 9], [7, 5], [3, 1]], dtype=float32)");
    wait_until_given_back();
  }
  // An axis of length one may have any stride; a stride of zero repeats.
  strides[0] = 0;
  strides[1] = -9;
  shape[1] = 1;
  given_back = 0;
  hf_array* a = NULL;
  OK(hf_array_from_dlpack(&tensor, HF_COPY_NEVER, NULL, &a));
  SHOWS(a, "array([[11], [11], [11]], dtype=float32)");
  wait_until_given_back();
  // Elements that are not aligned are copied.
  tensor = tensor_of();
  memmove((char*)memory + 1, memory, 4);
  tensor.dl_tensor.byte_offset = 1;
  shape[0] = shape[1] = 1;
  a = UNTOUCHED(hf_array);
  REFUSED(hf_array_from_dlpack(&tensor, HF_COPY_NEVER, NULL, &a), HF_ERROR_USAGE,
          "cannot be shared");
  CHECK(given_back == 0 && a == UNTOUCHED(hf_array));
  OK(hf_array_from_dlpack(&tensor, HF_COPY_IF_NEEDED, NULL, &a));
  SHOWS(a, "array([[0]], dtype=float32)");
  CHECK(given_back == 1);
}

static void tensors_that_no_array_can_be_stay_their_owners(void) {
  hf_array* a = UNTOUCHED(hf_array);
  DLManagedTensor t = tensor_of();
  t.dl_tensor.device.device_type = kDLROCM;
  REFUSED(hf_array_from_dlpack(&t, 0, NULL, &a), HF_ERROR_USAGE, "device type 10");
  t = tensor_of();
  t.dl_tensor.dtype.code = kDLComplex;
  REFUSED(hf_array_from_dlpack(&t, 0, NULL, &a), HF_ERROR_USAGE, "type code 5 with 32 bits");
  t = tensor_of();
  t.dl_tensor.dtype.lanes = 4;
  REFUSED(hf_array_from_dlpack(&t, 0, NULL, &a), HF_ERROR_USAGE, "4 lanes");
  t = tensor_of();
  t.dl_tensor.ndim = 9;
  REFUSED(hf_array_from_dlpack(&t, 0, NULL, &a), HF_ERROR_USAGE, "9 axes");
  t.dl_tensor.ndim = INT32_MIN;
  REFUSED(hf_array_from_dlpack(&t, 0, NULL, &a), HF_ERROR_USAGE, "axes");
  t = tensor_of();
  t.dl_tensor.shape = NULL;
  REFUSED(hf_array_from_dlpack(&t, 0, NULL, &a), HF_ERROR_USAGE, "no shape");
  t = tensor_of();
  t.dl_tensor.data = NULL;
  REFUSED(hf_array_from_dlpack(&t, 0, NULL, &a), HF_ERROR_USAGE, "no data");
  t = tensor_of();
  shape[0] = -3;
  REFUSED(hf_array_from_dlpack(&t, 0, NULL, &a), HF_ERROR_USAGE, "-3");
  shape[0] = INT64_MAX;
  shape[1] = INT64_MAX;
  REFUSED(hf_array_from_dlpack(&t, 0, NULL, &a), HF_ERROR_USAGE, "");
  t = tensor_of();
  t.dl_tensor.strides = strides;
  strides[0] = INT64_MAX;
  strides[1] = INT64_MIN;
  REFUSED(hf_array_from_dlpack(&t, 0, NULL, &a), HF_ERROR_USAGE, "strides");
  strides[0] = (int64_t)1 << 60;
  strides[1] = 1;
  REFUSED(hf_array_from_dlpack(&t, 0, NULL, &a), HF_ERROR_USAGE, "fits in no memory");
  t = tensor_of();
  REFUSED(hf_array_from_dlpack(&t, 3, NULL, &a), HF_ERROR_USAGE, "3 is no hf_copying");
  REFUSED(hf_array_from_dlpack(NULL, 0, NULL, &a), HF_ERROR_USAGE, "tensor is NULL");
  REFUSED(hf_array_from_dlpack(&t, 0, NULL, NULL), HF_ERROR_USAGE, "NULL");
  DLManagedTensorVersioned later = {2, 0, NULL, give_back_versioned, 0, t.dl_tensor};
  REFUSED(hf_array_from_dlpack_versioned(&later, 0, NULL, &a), HF_ERROR_USAGE, "version 2.0");
  REFUSED(hf_array_from_dlpack_versioned(NULL, 0, NULL, &a), HF_ERROR_USAGE, "tensor is NULL");
  CHECK(given_back == 0 && a == UNTOUCHED(hf_array));
  DLManagedTensor* made = UNTOUCHED(DLManagedTensor);
  DLManagedTensorVersioned* versioned = UNTOUCHED(DLManagedTensorVersioned);
  hf_array* x = counted(HF_INT8, two_by_three, 2);
  REFUSED(hf_array_to_dlpack(NULL, 0, HF_FOREVER, &made), HF_ERROR_USAGE, "array is NULL");
  REFUSED(hf_array_to_dlpack(x, -1, HF_FOREVER, &made), HF_ERROR_USAGE, "-1 is no hf_copying");
  REFUSED(hf_array_to_dlpack(x, 0, HF_FOREVER, NULL), HF_ERROR_USAGE, "tensor is NULL");
  REFUSED(hf_array_to_dlpack_versioned(x, 0, -9, &versioned), HF_ERROR_USAGE, "timeout");
  CHECK(made == UNTOUCHED(DLManagedTensor));
  CHECK(versioned == UNTOUCHED(DLManagedTensorVersioned));
  hf_array_release(x);
}

static void tensors_of_every_dtype_go_round(void) {
  for (hf_dtype dtype = HF_BOOL; dtype <= HF_FLOAT64; ++dtype) {
    hf_array *a = NULL, *back = NULL;
    OK(hf_ones(two_by_three, 2, dtype, NULL, &a));
    DLManagedTensor* tensor = NULL;
    OK(hf_array_to_dlpack(a, HF_COPY_IF_NEEDED, HF_FOREVER, &tensor));
    hf_array_release(a);
    OK(hf_array_from_dlpack(tensor, HF_COPY_NEVER, NULL, &back));
    hf_dtype found = -1;
    OK(hf_array_dtype(back, &found));
    CHECK(found == dtype);
    unsigned char bytes[48] = {0};
    size_t size = 0;
    OK(hf_array_nbytes(back, &size));
    OK(hf_array_read(back, HF_FOREVER, bytes, size));
    hf_array_release(back);
  }
}

const test dlpack_tests[] = {
    {"exported_tensors_share_elements_and_keep_them",
     exported_tensors_share_elements_and_keep_them},
    {"copies_are_made_where_they_are_asked_for", copies_are_made_where_they_are_asked_for},
    {"imported_tensors_are_given_back_once", imported_tensors_are_given_back_once},
    {"strides_and_offsets_of_tensors_count", strides_and_offsets_of_tensors_count},
    {"tensors_that_no_array_can_be_stay_their_owners",
     tensors_that_no_array_can_be_stay_their_owners},
    {"tensors_of_every_dtype_go_round", tensors_of_every_dtype_go_round},
    {NULL, NULL}};
