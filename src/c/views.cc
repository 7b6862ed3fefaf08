#include "holdfast/views.h"

#include "holdfast/c/arguments.h"

using namespace holdfast::c;

hf_status hf_slice_axes(hf_array* a, const hf_slice* slices, size_t count, hf_array** view) {
  return give_array(__func__, view,
                    [&] { return holdfast::slice(value_of(a, "a"), slices_of(slices, count)); });
}

hf_status hf_index(hf_array* a, int64_t at, int64_t axis, hf_array** view) {
  return give_array(__func__, view, [&] { return holdfast::index(value_of(a, "a"), at, axis); });
}

hf_status hf_transpose(hf_array* a, const int64_t* axes, size_t count, hf_array** view) {
  return give_array(__func__, view, [&] {
    return holdfast::transpose(value_of(a, "a"), dims_of(axes, count, "axes").span());
  });
}

hf_status hf_broadcast_to(hf_array* a, const int64_t* shape, size_t ndim, hf_array** view) {
  return give_array(__func__, view, [&] {
    return holdfast::broadcast_to(value_of(a, "a"), dims_of(shape, ndim, "shape"));
  });
}

hf_status hf_squeeze(hf_array* a, const int64_t* axes, size_t count, hf_array** view) {
  return give_array(__func__, view, [&] {
    return holdfast::squeeze(value_of(a, "a"), dims_of(axes, count, "axes").span());
  });
}

hf_status hf_expand_dims(hf_array* a, const int64_t* axes, size_t count, hf_array** view) {
  return give_array(__func__, view, [&] {
    return holdfast::expand_dims(value_of(a, "a"), dims_of(axes, count, "axes").span());
  });
}

hf_status hf_flip(hf_array* a, const int64_t* axes, size_t count, hf_array** view) {
  return give_array(__func__, view, [&] {
    return holdfast::flip(value_of(a, "a"), dims_of(axes, count, "axes").span());
  });
}

hf_status hf_as_strided(hf_array* a, const int64_t* shape, const int64_t* strides, size_t ndim,
                        int64_t offset, hf_array** view) {
  return give_array(__func__, view, [&] {
    return holdfast::as_strided(value_of(a, "a"), dims_of(shape, ndim, "shape"),
                                dims_of(strides, ndim, "strides"), offset);
  });
}

hf_status hf_reshape(hf_array* a, const int64_t* shape, size_t ndim, hf_stream* stream,
                     hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::reshape(value_of(a, "a"), dims_of(shape, ndim, "shape"), on_of(stream));
  });
}

hf_status hf_contiguous(hf_array* a, hf_stream* stream, hf_array** array) {
  return give_array(__func__, array,
                    [&] { return holdfast::contiguous(value_of(a, "a"), on_of(stream)); });
}

hf_status hf_copy(hf_array* a, hf_stream* stream, hf_array** array) {
  return give_array(__func__, array,
                    [&] { return holdfast::copy(value_of(a, "a"), on_of(stream)); });
}

hf_status hf_slice_update(hf_array* a, hf_array* update, const hf_slice* slices, size_t count,
                          hf_stream* stream, hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::slice_update(value_of(a, "a"), value_of(update, "update"),
                                  slices_of(slices, count), on_of(stream));
  });
}
