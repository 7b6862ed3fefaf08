#include "holdfast/stream.h"

#include "holdfast/c/arguments.h"

using namespace holdfast::c;

hf_status hf_stream_create(hf_device* device, hf_text name, hf_stream** stream) {
  return give(__func__, stream, [&] {
    return holdfast::new_stream(value_of(device, "device"), text_of(name, "name"));
  });
}

hf_status hf_device_default_stream(hf_device* device, hf_stream** stream) {
  return give(__func__, stream, [&] { return value_of(device, "device").default_stream(); });
}

hf_stream* hf_stream_retain(hf_stream* stream) { return retain(__func__, stream); }
void hf_stream_release(hf_stream* stream) { release(__func__, stream); }

hf_status hf_stream_equal(hf_stream* a, hf_stream* b, int32_t* equal) {
  return call(__func__,
              [&] { needed(equal, "equal") = value_of(a, "a") == value_of(b, "b") ? 1 : 0; });
}

hf_status hf_stream_device(hf_stream* stream, hf_device** device) {
  return give(__func__, device, [&] { return value_of(stream, "stream").device(); });
}

hf_status hf_stream_name(hf_stream* stream, const char** name) {
  return call(__func__, [&] { needed(name, "name") = value_of(stream, "stream").name().c_str(); });
}

hf_status hf_stream_flush(hf_stream* stream) {
  return call(__func__, [&] { value_of(stream, "stream").flush(); });
}

hf_status hf_stream_synchronize(hf_stream* stream, hf_timeout timeout) {
  return call(__func__, [&] { value_of(stream, "stream").synchronize(limit_of(timeout)); });
}

hf_status hf_stream_wait_for(hf_stream* stream, hf_stream* other) {
  return call(__func__, [&] { value_of(stream, "stream").wait_for(value_of(other, "other")); });
}

hf_status hf_stream_scope_begin(hf_stream* stream, hf_stream_scope** scope) {
  return call(__func__, [&] {
    needed(scope, "scope");
    auto made = std::make_unique<hf_stream_scope>();
    made->value.emplace(value_of(stream, "stream"));
    *scope = made.release();
  });
}

void hf_stream_scope_end(hf_stream_scope* scope) { release(__func__, scope); }
