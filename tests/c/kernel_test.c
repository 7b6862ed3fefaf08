#define _POSIX_C_SOURCE 200809L
#include <pthread.h>

#include "check.h"

static const hf_text xy[] = {HF_TEXT("x"), HF_TEXT("y")};
static const hf_text z_name[] = {HF_TEXT("z")};
static const int64_t six[] = {6};

static hf_kernel_definition axpy_definition(void) {
  hf_kernel_definition made = {.struct_size = sizeof made};
  made.name = hf_str("axpy");
  made.inputs = xy;
  made.input_count = 2;
  made.outputs = z_name;
  made.output_count = 1;
  made.source = hf_str("uint i = thread_position_in_grid.x; z[i] = T(a * x[i] + y[i]);");
  return made;
}

static hf_kernel* kernel_of(hf_kernel_definition definition) {
  hf_kernel* made = NULL;
  OK(hf_kernel_create(&definition, &made));
  return made;
}

// One kernel with an input x and an output z.
static hf_kernel* body(const char* source) {
  hf_kernel_definition made = {.struct_size = sizeof made};
  made.name = hf_str("body");
  made.inputs = xy;
  made.input_count = 1;
  made.outputs = z_name;
  made.output_count = 1;
  made.source = hf_str(source);
  return kernel_of(made);
}

static const hf_output six_floats = {six, 1, HF_FLOAT32};

static hf_kernel_call call_with(hf_array** inputs, size_t count) {
  hf_kernel_call made = {.struct_size = sizeof made};
  made.inputs = inputs;
  made.input_count = count;
  made.outputs = &six_floats;
  made.output_count = 1;
  made.grid.x = made.threadgroup.x = 6;
  made.grid.y = made.grid.z = made.threadgroup.y = made.threadgroup.z = 1;
  return made;
}

static void a_kernel_runs_with_constants_and_params(void) {
  hf_kernel* axpy = kernel_of(axpy_definition());
  const char* name = NULL;
  OK(hf_kernel_name(axpy, &name));
  CHECK(same(name, "axpy"));
  CHECK(hf_kernel_retain(axpy) == axpy);
  hf_kernel_release(axpy);

  hf_array* inputs[2] = {NULL, NULL};
  OK(hf_arange(0, 6, 1, HF_FLOAT32, NULL, &inputs[0]));
  OK(hf_ones(six, 1, HF_FLOAT32, NULL, &inputs[1]));
  const hf_constant constants[] = {{HF_TEXT("T"), HF_FLOAT32, HF_CONSTANT_DTYPE}};
  const hf_param params[] = {{HF_TEXT("a"), hf_float32(2)}};
  hf_kernel_call call = call_with(inputs, 2);
  call.constants = constants;
  call.constant_count = 1;
  call.params = params;
  call.param_count = 1;
  call.label = hf_str("the first");
  OK(hf_kernel_warm_up(axpy, &call));
  char* text = NULL;
  OK(hf_kernel_text(axpy, &call, &text));
  CHECK(strstr(text, "z[i] = T(a * x[i] + y[i]);") != NULL);
  hf_free(text);
  hf_array* z = NULL;
  OK(hf_kernel_run(axpy, &call, 1, &z));
  OK(hf_async_eval(&z, 1));
  hf_array_release(inputs[0]);  // dropped in flight
  hf_array_release(inputs[1]);
  hf_kernel_release(axpy);
  SHOWS(z, "array([1, 3, 5, 7, 9, 11], dtype=float32)");
}

static void constants_of_every_kind_and_initial_values(void) {
  hf_kernel* kernel =
      body("uint i = thread_position_in_grid.x; if (B && i < uint(N)) z[i] = x[i];");
  hf_array* x = NULL;
  OK(hf_arange(0, 6, 1, HF_FLOAT32, NULL, &x));
  hf_constant constants[] = {{HF_TEXT("B"), 1, HF_CONSTANT_BOOL},
                             {HF_TEXT("N"), 3, HF_CONSTANT_INT}};
  const hf_scalar init = hf_float32(9);
  hf_kernel_call call = call_with(&x, 1);
  call.constants = constants;
  call.constant_count = 2;
  call.init_value = &init;
  hf_array* z = NULL;
  OK(hf_kernel_run(kernel, &call, 1, &z));
  SHOWS(z, "array([0, 1, 2, 9, 9, 9], dtype=float32)");
  z = UNTOUCHED(hf_array);
  constants[0].kind = 3;
  REFUSED(hf_kernel_run(kernel, &call, 1, &z), HF_ERROR_USAGE, "3 is no hf_constant_kind");
  constants[0].kind = HF_CONSTANT_DTYPE;
  constants[0].value = (int64_t)1 << 32;  // not the dtype of its low half
  REFUSED(hf_kernel_run(kernel, &call, 1, &z), HF_ERROR_USAGE, "4294967296 is no dtype");
  constants[0].kind = HF_CONSTANT_INT;
  constants[0].name = hf_str("");
  REFUSED(hf_kernel_run(kernel, &call, 1, &z), HF_ERROR_USAGE, "");
  CHECK(z == UNTOUCHED(hf_array));
  hf_array_release(x);
  hf_kernel_release(kernel);
}

static void in_place_results_follow_the_outputs_and_take_over_memory(void) {
  const hf_text state[] = {HF_TEXT("state")};
  hf_kernel_definition definition = {.struct_size = sizeof definition};
  definition.name = hf_str("step");
  definition.outputs = z_name;
  definition.output_count = 1;
  definition.in_place = state;
  definition.in_place_count = 1;
  definition.source =
      hf_str("uint i = thread_position_in_grid.x; z[i] = state[i]; state[i] += 1.0f;");
  hf_kernel* step = kernel_of(definition);
  hf_device* device = NULL;
  OK(hf_device_open(hf_str("cpu"), NULL, &device));
  hf_stream* stream = NULL;
  OK(hf_device_default_stream(device, &stream));
  hf_array* old = NULL;
  OK(hf_full(six, 1, 5, HF_FLOAT32, stream, &old));
  OK(hf_eval(&old, 1, HF_FOREVER));
  hf_kernel_call call = call_with(NULL, 0);
  call.in_place = &old;
  call.in_place_count = 1;
  call.stream = stream;
  hf_array* results[2] = {UNTOUCHED(hf_array), UNTOUCHED(hf_array)};
  REFUSED(hf_kernel_run(step, &call, 1, results), HF_ERROR_USAGE,
          "room for 1 results, and the call of kernel 'step' gives 2");
  REFUSED(hf_kernel_run(step, &call, 2, NULL), HF_ERROR_USAGE, "results is NULL");
  CHECK(results[0] == UNTOUCHED(hf_array) && results[1] == UNTOUCHED(hf_array));
  OK(hf_kernel_run(step, &call, 2, results));
  hf_array_release(old);  // nobody sees it any more: no copy
  SHOWS(results[0], "array([5, 5, 5, 5, 5, 5], dtype=float32)");
  SHOWS(results[1], "array([6, 6, 6, 6, 6, 6], dtype=float32)");
  hf_stats stats = {.struct_size = sizeof stats};
  OK(hf_device_get_stats(device, &stats));
  CHECK(stats.donated == 1 && stats.hidden_copies == 0);
  hf_stream_release(stream);
  hf_device_release(device);
  hf_kernel_release(step);
}

static void layouts_are_chosen_by_definition_and_call(void) {
  const int64_t shape[] = {2, 3};
  hf_kernel* kernel = body("uint i = thread_position_in_grid.x; z[i] = x[i];");
  hf_array* a = counted(HF_FLOAT32, shape, 2);
  hf_array* turned = NULL;
  OK(hf_transpose(a, NULL, 0, &turned));
  hf_kernel_call call = call_with(&turned, 1);
  const char* const rows = "array([0, 3, 1, 4, 2, 5], dtype=float32)";
  const char* const as_they_lie = "array([0, 1, 2, 3, 4, 5], dtype=float32)";
  hf_array* z = NULL;
  OK(hf_kernel_run(kernel, &call, 1, &z));
  SHOWS(z, rows);
  call.layouts = HF_LAYOUTS_AS_THEY_LIE;
  OK(hf_kernel_run(kernel, &call, 1, &z));
  SHOWS(z, as_they_lie);
  hf_kernel_release(kernel);
  hf_kernel_definition strided = {.struct_size = sizeof strided};
  strided.name = hf_str("strided");
  strided.inputs = xy;
  strided.input_count = 1;
  strided.outputs = z_name;
  strided.output_count = 1;
  strided.source = hf_str("uint i = thread_position_in_grid.x; z[i] = x[i];");
  strided.flags = HF_KERNEL_STRIDED_INPUTS;
  strided.math = HF_MATH_FAST;
  kernel = kernel_of(strided);
  call.layouts = HF_LAYOUTS_DEFAULT;
  OK(hf_kernel_run(kernel, &call, 1, &z));
  SHOWS(z, as_they_lie);
  call.layouts = HF_LAYOUTS_ROW_CONTIGUOUS;
  OK(hf_kernel_run(kernel, &call, 1, &z));
  SHOWS(z, rows);
  call.layouts = 3;
  REFUSED(hf_kernel_run(kernel, &call, 1, &z), HF_ERROR_USAGE, "3 is no hf_layouts");
  hf_kernel_release(kernel);
  hf_array_release(a);
  hf_array_release(turned);
}

static void natives_take_the_place_of_the_body(void) {
  const char* const code =
      "extern \"C\" void twice(const hf_call* call) {\n"
      "  const float* x = (const float*)call->buffers[0];\n"
      "  float* z = (float*)call->buffers[1];\n"
      "  for (int i = 0; i < 6; ++i) z[i] = 2 * x[i];\n"
      "}\n";
  hf_native native = {.struct_size = sizeof native};
  native.kind = HF_NATIVE_CPP;
  native.code = code;
  native.code_size = strlen(code);
  native.entry_point = hf_str("twice");
  const hf_native* natives[] = {&native};
  hf_kernel_definition definition = {.struct_size = sizeof definition};
  definition.name = hf_str("twice");
  definition.inputs = xy;
  definition.input_count = 1;
  definition.outputs = z_name;
  definition.output_count = 1;
  definition.natives = natives;
  definition.native_count = 1;
  hf_kernel* kernel = UNTOUCHED(hf_kernel);
  native.kind = 6;
  REFUSED(hf_kernel_create(&definition, &kernel), HF_ERROR_USAGE, "6 is no hf_native_kind");
  native.kind = HF_NATIVE_CPP;
  native.code_size = SIZE_MAX;
  REFUSED(hf_kernel_create(&definition, &kernel), HF_ERROR_USAGE, "check the count");
  native.code_size = strlen(code);
  native.struct_size = 0;
  REFUSED(hf_kernel_create(&definition, &kernel), HF_ERROR_USAGE, "struct_size of hf_native is 0");
  native.struct_size = sizeof native;
  native.bindings = z_name;
  native.binding_count = 1;
  REFUSED(hf_kernel_create(&definition, &kernel), HF_ERROR_USAGE, "");
  native.binding_count = 0;
  natives[0] = NULL;
  REFUSED(hf_kernel_create(&definition, &kernel), HF_ERROR_USAGE, "hf_native is NULL");
  natives[0] = &native;
  const char module[] = {1, 2, 3};
  hf_native spirv = {.struct_size = sizeof spirv};
  spirv.kind = HF_NATIVE_SPIRV;
  spirv.code = module;
  spirv.code_size = sizeof module;
  spirv.addresses = 1;
  spirv.threadgroup.x = spirv.threadgroup.y = spirv.threadgroup.z = 1;
  natives[0] = &spirv;
  hf_status status = hf_kernel_create(&definition, &kernel);
  if (status == HF_OK) hf_kernel_release(kernel);  // looked at where a device takes it
  natives[0] = &native;
  kernel = kernel_of(definition);
  hf_array *x = NULL, *z = NULL;
  OK(hf_arange(0, 6, 1, HF_FLOAT32, NULL, &x));
  hf_kernel_call call = call_with(&x, 1);
  OK(hf_kernel_run(kernel, &call, 1, &z));
  SHOWS(z, "array([0, 2, 4, 6, 8, 10], dtype=float32)");
  hf_array_release(x);
  hf_kernel_release(kernel);
}

static void wrong_definitions_are_refused(void) {
  hf_kernel* kernel = UNTOUCHED(hf_kernel);
  hf_kernel_definition d = axpy_definition();
  REFUSED(hf_kernel_create(NULL, &kernel), HF_ERROR_USAGE, "hf_kernel_definition is NULL");
  REFUSED(hf_kernel_create(&d, NULL), HF_ERROR_USAGE, "NULL");
  d.name = hf_str("not an identifier");
  REFUSED(hf_kernel_create(&d, &kernel), HF_ERROR_USAGE, "not an identifier");
  d = axpy_definition();
  d.name.data = NULL;
  REFUSED(hf_kernel_create(&d, &kernel), HF_ERROR_USAGE, "name is NULL");
  d = axpy_definition();
  d.inputs = NULL;
  REFUSED(hf_kernel_create(&d, &kernel), HF_ERROR_USAGE, "inputs is NULL");
  d = axpy_definition();
  d.input_count = SIZE_MAX / 8;
  REFUSED(hf_kernel_create(&d, &kernel), HF_ERROR_USAGE, "check the count");
  d = axpy_definition();
  d.output_count = 0;
  REFUSED(hf_kernel_create(&d, &kernel), HF_ERROR_USAGE, "");
  d = axpy_definition();
  d.source.length = 0;
  REFUSED(hf_kernel_create(&d, &kernel), HF_ERROR_USAGE, "");
  d.file = hf_str("/no/such/kernel");
  REFUSED(hf_kernel_create(&d, &kernel), HF_ERROR_ENVIRONMENT, "/no/such/kernel");
  d = axpy_definition();
  d.flags = 8;
  REFUSED(hf_kernel_create(&d, &kernel), HF_ERROR_USAGE, "0x8");
  d = axpy_definition();
  d.math = 2;
  REFUSED(hf_kernel_create(&d, &kernel), HF_ERROR_USAGE, "2 is no hf_math_mode");
  d = axpy_definition();
  d.struct_size = sizeof d - 1;
  REFUSED(hf_kernel_create(&d, &kernel), HF_ERROR_USAGE, "sizeof(hf_kernel_definition)");
  CHECK(kernel == UNTOUCHED(hf_kernel));

  // A later version's struct: its new fields may be there, unless they are used.
  struct {
    hf_kernel_definition known;
    uint64_t later;
  } larger = {axpy_definition(), 0};
  larger.known.struct_size = sizeof larger;
  OK(hf_kernel_create(&larger.known, &kernel));
  hf_kernel_release(kernel);
  larger.later = 1;
  REFUSED(hf_kernel_create(&larger.known, &kernel), HF_ERROR_UNSUPPORTED, "later version");
}

static void wrong_calls_are_refused(void) {
  hf_kernel* kernel = body("uint i = thread_position_in_grid.x; z[i] = s * x[i];");
  hf_array* x = NULL;
  OK(hf_arange(0, 6, 1, HF_FLOAT32, NULL, &x));
  hf_array* z = UNTOUCHED(hf_array);
  hf_param param = {HF_TEXT("s"), {0, HF_FLOAT32}};
  hf_kernel_call good = call_with(&x, 1);
  good.params = &param;
  good.param_count = 1;
  hf_kernel_call call = good;
  REFUSED(hf_kernel_run(NULL, &call, 1, &z), HF_ERROR_USAGE, "kernel is NULL");
  REFUSED(hf_kernel_run((hf_kernel*)(void*)x, &call, 1, &z), HF_ERROR_USAGE, "and is an array");
  REFUSED(hf_kernel_run(kernel, NULL, 1, &z), HF_ERROR_USAGE, "hf_kernel_call is NULL");
  call.struct_size = 8;
  REFUSED(hf_kernel_run(kernel, &call, 1, &z), HF_ERROR_USAGE, "sizeof(hf_kernel_call)");
  call.struct_size = (size_t)1 << 40;
  REFUSED(hf_kernel_run(kernel, &call, 1, &z), HF_ERROR_USAGE, "sizeof(hf_kernel_call)");
  call = good;
  call.input_count = 0;
  REFUSED(hf_kernel_run(kernel, &call, 1, &z), HF_ERROR_USAGE, "body");
  call = good;
  call.outputs = NULL;
  REFUSED(hf_kernel_run(kernel, &call, 1, &z), HF_ERROR_USAGE, "outputs is NULL");
  call = good;
  const hf_output wrong_dtype = {six, 1, 99}, no_shape = {NULL, 1, HF_INT8},
                  many_axes = {six, 1000, HF_INT8};
  call.outputs = &wrong_dtype;
  REFUSED(hf_kernel_run(kernel, &call, 1, &z), HF_ERROR_USAGE, "99 is no dtype");
  call.outputs = &no_shape;
  REFUSED(hf_kernel_run(kernel, &call, 1, &z), HF_ERROR_USAGE, "the shape of an output is NULL");
  call.outputs = &many_axes;
  REFUSED(hf_kernel_run(kernel, &call, 1, &z), HF_ERROR_USAGE, "1000");
  call = good;
  call.threadgroup.x = 0;
  REFUSED(hf_kernel_run(kernel, &call, 1, &z), HF_ERROR_USAGE, "threadgroup");
  call.threadgroup.x = UINT32_MAX;
  REFUSED(hf_kernel_run(kernel, &call, 1, &z), HF_ERROR_USAGE, "threadgroup");
  call = good;
  param.value.dtype = -4;
  REFUSED(hf_kernel_run(kernel, &call, 1, &z), HF_ERROR_USAGE, "-4 is no dtype");
  param.value.dtype = HF_FLOAT32;
  param.name = hf_str("unknown");
  REFUSED(hf_kernel_run(kernel, &call, 1, &z), HF_ERROR_USAGE, "unknown");
  const hf_scalar init = {0, 15};
  call.init_value = &init;
  REFUSED(hf_kernel_run(kernel, &call, 1, &z), HF_ERROR_USAGE, "15 is no dtype");
  REFUSED(hf_kernel_warm_up(kernel, NULL), HF_ERROR_USAGE, "NULL");
  REFUSED(hf_kernel_warm_up(NULL, &good), HF_ERROR_USAGE, "NULL");
  char* text = NULL;
  REFUSED(hf_kernel_text(kernel, &good, NULL), HF_ERROR_USAGE, "the place of the text is NULL");
  REFUSED(hf_kernel_text(NULL, &good, &text), HF_ERROR_USAGE, "kernel is NULL");
  const char* name = NULL;
  REFUSED(hf_kernel_name(NULL, &name), HF_ERROR_USAGE, "kernel is NULL");
  REFUSED(hf_kernel_name(kernel, NULL), HF_ERROR_USAGE, "name is NULL");
  CHECK(z == UNTOUCHED(hf_array));
  hf_array_release(x);
  hf_kernel_release(kernel);
}

static void compile_errors_point_into_the_text(void) {
  hf_kernel* kernel = body("uint i = thread_position_in_grid.x;\nz[i] = x[i] + missing;");
  hf_array *x = NULL, *z = NULL;
  OK(hf_arange(0, 6, 1, HF_FLOAT32, NULL, &x));
  hf_kernel_call call = call_with(&x, 1);
  call.label = hf_str("layer 7");
  OK(hf_kernel_run(kernel, &call, 1, &z));
  REFUSED(hf_eval(&z, 1, HF_FOREVER), HF_ERROR_USAGE, "missing");
  CHECK(strstr(hf_last_error(), "z[i] = x[i] + missing;") != NULL);
  const char* const caret = strchr(hf_last_error(), '^');
  CHECK(caret != NULL && strstr(hf_last_error(), "body") != NULL);
  CHECK(strstr(hf_last_error(), "layer 7") != NULL);
  // The array stays failed; what does not depend on it works.
  float values[6];
  REFUSED(hf_array_read(z, HF_FOREVER, values, sizeof values), HF_ERROR_USAGE, "missing");
  REFUSED(hf_kernel_warm_up(kernel, &call), HF_ERROR_USAGE, "missing");
  hf_array_release(z);
  hf_kernel_release(kernel);
  SHOWS(x, "array([0, 1, 2, 3, 4, 5], dtype=float32)");
}

static void failed_work_fails_whoever_reads_what_depends_on_it(void) {
  hf_kernel* kernel = body(
      "if (thread_position_in_grid.x == 0) return;\n"
      "threadgroup_barrier(mem_flags::mem_threadgroup);\n"
      "z[thread_position_in_grid.x] = x[thread_position_in_grid.x];");
  hf_array *x = NULL, *z = NULL, *after = NULL;
  OK(hf_arange(0, 6, 1, HF_FLOAT32, NULL, &x));
  hf_kernel_call call = call_with(&x, 1);
  OK(hf_kernel_run(kernel, &call, 1, &z));
  OK(hf_binary(HF_ADD, hf_of(z), hf_number(hf_int32(1)), NULL, &after));
  float values[6] = {7};
  REFUSED(hf_array_read(after, HF_FOREVER, values, sizeof values), HF_ERROR_EXECUTION,
          "returned before the barrier at line 2");
  CHECK(values[0] == 7);
  hf_map* map = UNTOUCHED(hf_map);
  REFUSED(hf_array_map(z, HF_FOREVER, &map), HF_ERROR_EXECUTION, "barrier");
  CHECK(map == UNTOUCHED(hf_map));
  hf_array_release(after);
  hf_array_release(z);
  hf_kernel_release(kernel);
  SHOWS(x, "array([0, 1, 2, 3, 4, 5], dtype=float32)");
}

// A kernel that runs until the host lets it go on.
typedef struct gate {
  int32_t open;
  hf_array* array;
  hf_array* result;
  hf_kernel* kernel;
} gate;

static void start(gate* g) {
  const int64_t one[] = {1};
  const hf_output output = {one, 1, HF_INT32};
  g->kernel = body("while (__atomic_load_n(&x[0], __ATOMIC_ACQUIRE) == 0) {} z[0] = 7;");
  OK(hf_array_from_external(&g->open, HF_INT32, one, 1, NULL, NULL, NULL, &g->array));
  hf_kernel_call call = call_with(&g->array, 1);
  call.outputs = &output;
  call.grid.x = call.threadgroup.x = 1;
  OK(hf_kernel_run(g->kernel, &call, 1, &g->result));
  OK(hf_async_eval(&g->result, 1));
}

static void finish(gate* g) {
  __atomic_store_n(&g->open, 1, __ATOMIC_RELEASE);
  SHOWS(g->result, "array([7], dtype=int32)");
  hf_device* device = NULL;
  OK(hf_array_device(g->array, &device));
  hf_array_release(g->array);
  hf_kernel_release(g->kernel);
  OK(hf_device_synchronize(device, HF_FOREVER));
  hf_device_release(device);
}

static gate waited_for;

static void waits_end_at_their_limit_and_lose_nothing(void) {
  gate* const g = &waited_for;
  g->open = 0;
  start(g);
  int32_t value = 3;
  REFUSED(hf_eval(&g->result, 1, 1000000), HF_ERROR_TIMEOUT, "");
  REFUSED(hf_eval(&g->result, 1, 0), HF_ERROR_TIMEOUT, "");
  REFUSED(hf_array_read(g->result, 0, &value, sizeof value), HF_ERROR_TIMEOUT, "");
  hf_map* map = UNTOUCHED(hf_map);
  REFUSED(hf_array_map(g->result, 0, &map), HF_ERROR_TIMEOUT, "");
  char* text = UNTOUCHED(char);
  REFUSED(hf_array_to_text(g->result, 0, &text), HF_ERROR_TIMEOUT, "");
  hf_scalar item = {5, HF_INT8};
  REFUSED(hf_array_item(g->result, 0, &item), HF_ERROR_TIMEOUT, "");
  hf_stream* stream = NULL;
  hf_device* device = NULL;
  OK(hf_array_stream(g->result, &stream));
  OK(hf_array_device(g->result, &device));
  REFUSED(hf_stream_synchronize(stream, 0), HF_ERROR_TIMEOUT, "");
  REFUSED(hf_device_synchronize(device, 0), HF_ERROR_TIMEOUT, "");
  hf_stream_release(stream);
  hf_device_release(device);
  CHECK(value == 3 && map == UNTOUCHED(hf_map) && text == UNTOUCHED(char) && item.bits == 5);
  finish(g);
}

static int interrupted;

static void* wait_for_ever(void* result) {
  hf_array* array = result;
  REFUSED(hf_eval(&array, 1, HF_FOREVER), HF_ERROR_INTERRUPTED, "");
  __atomic_store_n(&interrupted, 1, __ATOMIC_RELEASE);
  return NULL;
}

static void waits_are_interrupted(void) {
  gate* const g = &waited_for;
  g->open = 0;
  start(g);
  interrupted = 0;
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, wait_for_ever, g->result) == 0);
  while (!__atomic_load_n(&interrupted, __ATOMIC_ACQUIRE)) hf_interrupt_waits();
  CHECK(pthread_join(thread, NULL) == 0);
  finish(g);
}

const test kernel_tests[] = {
    {"a_kernel_runs_with_constants_and_params", a_kernel_runs_with_constants_and_params},
    {"constants_of_every_kind_and_initial_values", constants_of_every_kind_and_initial_values},
    {"in_place_results_follow_the_outputs_and_take_over_memory",
     in_place_results_follow_the_outputs_and_take_over_memory},
    {"layouts_are_chosen_by_definition_and_call", layouts_are_chosen_by_definition_and_call},
    {"natives_take_the_place_of_the_body", natives_take_the_place_of_the_body},
    {"wrong_definitions_are_refused", wrong_definitions_are_refused},
    {"wrong_calls_are_refused", wrong_calls_are_refused},
    {"compile_errors_point_into_the_text", compile_errors_point_into_the_text},
    {"failed_work_fails_whoever_reads_what_depends_on_it",
     failed_work_fails_whoever_reads_what_depends_on_it},
    {"waits_end_at_their_limit_and_lose_nothing", waits_end_at_their_limit_and_lose_nothing},
    {"waits_are_interrupted", waits_are_interrupted},
    {NULL, NULL}};
