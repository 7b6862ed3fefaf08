# Labels: quick (every ./dev test), sanitize (what runs under the sanitizers), single (one test in a
# process of its own: ./dev test -R NAME, and nightly), nightly (only ./dev nightly). A GoogleTest
# test whose name contains "nightly" or "Nightly" is nightly; every other is single, and part of a
# shard, which is quick or sanitize.

include(GoogleTest)

# Here a Vulkan device must be there (lavapipe is), and nothing is written outside build/, whose builds
# share the kernels that their tests compile.
set(holdfast_test_environment HOLDFAST_VALIDATE=1 HOLDFAST_REQUIRE_VULKAN=1
  "HOLDFAST_CACHE_DIR=${PROJECT_SOURCE_DIR}/build/test_cache")
# NVRTC compiles CUDA text without a GPU: the system's, or the one that ./dev fetched. Tests that need
# it are skipped where there is none now, and fail where it went missing.
file(GLOB fetched_nvrtc CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/build/nvrtc/libnvrtc.so.*")
find_library(HOLDFAST_NVRTC NAMES libnvrtc.so.13 libnvrtc.so.12 nvrtc
  HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES lib64 lib)
mark_as_advanced(HOLDFAST_NVRTC)
if(HOLDFAST_NVRTC)
  cmake_path(GET HOLDFAST_NVRTC PARENT_PATH nvrtc_dir)
elseif(fetched_nvrtc)
  set(nvrtc_dir "${PROJECT_SOURCE_DIR}/build/nvrtc")
endif()
if(nvrtc_dir)
  list(APPEND holdfast_test_environment "HOLDFAST_NVRTC_DIR=${nvrtc_dir}" HOLDFAST_REQUIRE_NVRTC=1)
else()
  message(STATUS "No NVRTC found: tests of CUDA text are skipped")
endif()
# zig, which has a clang of its own: where nightly fetched it.
if(EXISTS "${PROJECT_SOURCE_DIR}/build/ziglang/ziglang/zig")
  list(APPEND holdfast_test_environment
    "HOLDFAST_TEST_ZIG=${PROJECT_SOURCE_DIR}/build/ziglang/ziglang/zig")
endif()
# The stub of NVIDIA's driver: the CUDA device runs on it where there is no GPU.
file(GLOB stub_cuda_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/testing/stub_cuda/*.cc")
set(stub_cuda_exports "${PROJECT_SOURCE_DIR}/src/testing/stub_cuda/exports.map")
holdfast_join(stub_cuda_sources holdfast_stub_cuda ${stub_cuda_sources})
add_library(holdfast_stub_cuda SHARED ${stub_cuda_sources})
target_link_libraries(holdfast_stub_cuda PRIVATE holdfast_base)
# What it has of the base library is its own: its threads are real ones where a test simulates.
target_link_options(holdfast_stub_cuda PRIVATE "-Wl,--version-script=${stub_cuda_exports}")
# Thread-locals with the threads' own: glibc frees those of a library that was loaded later when a new
# thread takes over the memory of one that ended, which ThreadSanitizer takes for a race.
target_compile_options(holdfast_stub_cuda PRIVATE -ftls-model=initial-exec)
set_target_properties(holdfast_stub_cuda PROPERTIES CXX_VISIBILITY_PRESET hidden
  LINK_DEPENDS "${stub_cuda_exports}" LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
holdfast_set_warnings(holdfast_stub_cuda)
holdfast_sanitize(holdfast_stub_cuda)
list(APPEND holdfast_test_environment "HOLDFAST_STUB_CUDA=${PROJECT_BINARY_DIR}/libholdfast_stub_cuda.so")
# What src/hal/cuda says of the driver and of cuBLASLt, compared with the toolkit's headers where there
# are some.
find_path(HOLDFAST_CUDA_INCLUDE cuda.h HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda
  PATH_SUFFIXES include)
mark_as_advanced(HOLDFAST_CUDA_INCLUDE)
if(HOLDFAST_CUDA_INCLUDE)
  add_library(holdfast_cuda_abi OBJECT "${PROJECT_SOURCE_DIR}/tests/cuda_abi/cuda_abi.cc")
  if(EXISTS "${HOLDFAST_CUDA_INCLUDE}/cublasLt.h")
    target_sources(holdfast_cuda_abi PRIVATE "${PROJECT_SOURCE_DIR}/tests/cuda_abi/cublaslt_abi.cc")
  endif()
  target_link_libraries(holdfast_cuda_abi PRIVATE holdfast_base)
  target_include_directories(holdfast_cuda_abi SYSTEM PRIVATE "${HOLDFAST_CUDA_INCLUDE}")
  holdfast_set_warnings(holdfast_cuda_abi)
endif()
# Limits are for hangs: a slow or busy machine never meets them.
set(holdfast_test_timeout 1800)
set(holdfast_nightly_timeout 7200)
# A sanitizer needs fewer schedules to meet an access than an assertion needs to see what it did.
set(holdfast_shard_environment ${holdfast_test_environment})
if(HOLDFAST_SANITIZE AND NOT HOLDFAST_SANITIZE_ALL)
  list(APPEND holdfast_shard_environment HOLDFAST_SCHEDULES=10)
endif()

file(GLOB testing_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/testing/*.cc")
if(testing_sources)
  holdfast_add_library(holdfast_testing testing ${testing_sources})
  target_link_libraries(holdfast_testing PUBLIC holdfast_runtime holdfast_simulation GTest::gtest GTest::gmock
    rapidcheck)
  file(GLOB testing_kernels CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/testing/kernels/*.comp")
  holdfast_embed_spirv(holdfast_testing testing ${testing_kernels})
  file(GLOB testing_ptx CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/testing/kernels/*.ptx")
  holdfast_embed_text(holdfast_testing testing ${testing_ptx})
endif()

# Tests are many and short-lived: compiling them dominates, so they are not optimized.
set(holdfast_test_options -O0)
# holdfast_compile_as_test(<target>): not optimized, and with the headers that tests have precompiled.
function(holdfast_compile_as_test target)
  target_compile_options(${target} PRIVATE ${holdfast_test_options})
  # What GoogleTest defines: precompiled headers are for one set of definitions.
  target_link_libraries(${target} PRIVATE GTest::gtest GTest::gmock)
  holdfast_precompile(${target} TEST)
endfunction()

if(TARGET holdfast_testing)
  holdfast_compile_as_test(holdfast_testing)
endif()

# Sanitizers run the programs whose bytes they have not passed before: see tools/ci/once.
set(holdfast_once "")
if(HOLDFAST_SANITIZE)
  set(holdfast_once "${PROJECT_SOURCE_DIR}/tools/ci/once")
endif()

# Starting a process takes longer than most tests, so a program runs as shards. Nightly tests are left
# out; under a sanitizer also those in which it sees nothing, or the same of our code as in the ones
# beside them, and those of the layers, which leak.
function(holdfast_add_shards target left_out)
  set(filter "--gtest_filter=-*ightly*")
  set(label quick)
  if(HOLDFAST_SANITIZE)
    set(label sanitize)
    string(APPEND filter ":*vulkan_adversary:*on_vulkan*:VulkanLayers.*:*cuda_adversary:*computes_on_cuda:*twice_on_cuda")
  endif()
  if(HOLDFAST_SANITIZE MATCHES "address" AND NOT HOLDFAST_SANITIZE_ALL)
    # What other compilers do with all bodies is not our code, and no instrumented code runs.
    string(APPEND filter ":CudaText.every_body*:CppText.every_body*:CppText.clang_takes*")
    # An operation's second body, and its kernels for other dtypes, are recorded by much the same code
    # as the first, and compiling a kernel with the sanitizer takes longer than what it does here.
    string(APPEND filter ":*/many_weak:WeakBodies*:CommonDtypes/*/bfloat16:CommonDtypes/*/bool")
    # A search for what a missing safety breaks meets no more of our code than one that finds nothing.
    string(APPEND filter ":Ablations/RandomProgramsWithout.*")
  endif()
  if(HOLDFAST_SANITIZE MATCHES "thread")
    # A simulation is one thread, and so is arithmetic: they have no race to report.
    string(APPEND filter ":*_adversary:*Ablation*:*Codebook.*")
  endif()
  if(left_out)
    string(APPEND filter ":${left_out}")
  endif()
  foreach(shard RANGE 3)
    add_test(NAME ${target}.${shard}
      COMMAND ${holdfast_once} $<TARGET_FILE:${target}> --gtest_brief=1 "${filter}")
    set_tests_properties(${target}.${shard} PROPERTIES LABELS ${label} TIMEOUT ${holdfast_test_timeout}
      SKIP_RETURN_CODE 77
      ENVIRONMENT "${holdfast_shard_environment};GTEST_TOTAL_SHARDS=4;GTEST_SHARD_INDEX=${shard}")
  endforeach()
endfunction()

# What ThreadSanitizer's build leaves out, to compile only what is worth running there: one thread, texts
# and arithmetic show a detector of races nothing, and what NVRTC does is not our code.
# HOLDFAST_SANITIZE_ALL, which nightly sets, leaves out nothing.
set(holdfast_left_to_nightly "")
if(HOLDFAST_SANITIZE MATCHES "thread" AND NOT HOLDFAST_SANITIZE_ALL)
  list(APPEND holdfast_left_to_nightly
    "array/ops/" "array/(dtypes|layout|layout_model|npy|npy_header|print|random|views)_test"
    "base/(bytes|env|error|hash|id|range_set|checked_file)_test"
    "kernel/(generate/|language|dtype|float16|names)" "kernel/(definition|signature|diagnostics)_test"
    "kernel/(native|cache/ablations|cache/content_key|cache/signature_key)_test"
    "kernel/targets/(cuda/|vulkan/|toy_target|cpu/cpp_diagnostics|cpu/cpu_text|cpu/generated_on_cpu)"
    "hal/(access_history|access_history_failure|allocation|command_list|damage|devices|list_damage)_test"
    "hal/(validate/validation_model|vulkan/spirv|vulkan/vulkan_memory_types)"
    "hal/cuda/(cuda_graph_ablations|cuda_refusals)_test"
    "runtime/(hazards|misuse|options|range_pool)_test")
endif()

# holdfast_add_test(<target> <library> [<source>...]): every test, except for those that GoogleTest's
# filter holdfast_left_out names.
function(holdfast_add_test target library)
  set(sources ${ARGN})
  foreach(pattern IN LISTS holdfast_left_to_nightly)
    list(FILTER sources EXCLUDE REGEX "/${pattern}[^/]*$")
  endforeach()
  if(NOT sources)
    return()
  endif()
  holdfast_join(sources ${target} ${sources})
  holdfast_add_program(${target} ${sources})
  if(HOLDFAST_SANITIZE)
    target_sources(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests/sanitizers/keep_modules_loaded.cc")
  endif()
  if(HOLDFAST_MUTANTS)
    target_sources(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tools/mutants/record.cc")
  endif()
  target_link_libraries(${target} PRIVATE ${library} GTest::gtest_main GTest::gmock)
  if(TARGET holdfast_testing)
    target_link_libraries(${target} PRIVATE holdfast_testing)
  endif()
  holdfast_compile_as_test(${target})
  holdfast_add_shards(${target} "${holdfast_left_out}")
  if(HOLDFAST_SANITIZE)
    return()
  endif()
  # Listing tests runs the program; before the tests, not in the build, it can do so with the
  # environment that sanitizers need.
  set(filter "")
  if(holdfast_left_out)
    set(filter TEST_FILTER "-${holdfast_left_out}")
  endif()
  gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 ${filter})
  # gtest_discover_tests cannot pass on a property that is a list: these are set where the list of
  # tests is known, which is when ctest reads this file.
  set(properties "${PROJECT_BINARY_DIR}/${target}_properties.cmake")
  configure_file("${PROJECT_SOURCE_DIR}/cmake/test_properties.cmake.in" "${properties}" @ONLY)
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${properties}")
endfunction()

holdfast_sources(base_tests TEST src/base)
holdfast_add_test(holdfast_base_test holdfast_base ${base_tests})
holdfast_sources(simulation_tests TEST src/simulation)
holdfast_add_test(holdfast_simulation_test holdfast_simulation ${simulation_tests})
holdfast_sources(hal_tests TEST src/hal)
holdfast_add_test(holdfast_hal_test holdfast_runtime ${hal_tests})
add_dependencies(holdfast_hal_test holdfast_stub_cuda)
holdfast_sources(runtime_tests TEST src/runtime)
holdfast_add_test(holdfast_runtime_test holdfast_runtime ${runtime_tests})
# The other processes of tests that need several.
holdfast_add_program(holdfast_kernel_child "${PROJECT_SOURCE_DIR}/tests/kernel_child/main.cc")
target_link_libraries(holdfast_kernel_child PRIVATE holdfast_array)
holdfast_compile_as_test(holdfast_kernel_child)
holdfast_sources(kernel_tests TEST src/kernel)
holdfast_add_test(holdfast_kernel_test holdfast_kernel ${kernel_tests})
target_link_libraries(holdfast_kernel_test PRIVATE SPIRV-Tools-static)
add_dependencies(holdfast_kernel_test holdfast_kernel_child)
holdfast_sources(array_tests TEST src/array src/c)
holdfast_add_test(holdfast_array_test holdfast_c ${array_tests})
target_link_libraries(holdfast_array_test PRIVATE holdfast_array)
add_dependencies(holdfast_array_test holdfast_kernel_child holdfast_stub_cuda)
file(GLOB workload_tests CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tools/workloads/*_test.cc")
holdfast_add_test(holdfast_workloads_test holdfast_workloads ${workload_tests})
# Workload 3 is what examples/turboquant.cc runs.
target_link_libraries(holdfast_workloads_test PRIVATE holdfast_array)
target_include_directories(holdfast_workloads_test PRIVATE "${PROJECT_SOURCE_DIR}")
add_dependencies(holdfast_workloads_test holdfast_stub_cuda)
file(GLOB cts_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/hal/cts/*.cc")
set(holdfast_left_out "*/*vulkan*:*/*cuda*")
holdfast_add_test(holdfast_cts holdfast_runtime ${cts_sources})
unset(holdfast_left_out)
add_dependencies(holdfast_cts holdfast_stub_cuda)
# One process a device: loading a driver takes longer than most tests.
foreach(device vulkan validate_vulkan vulkan_discrete validate_vulkan_discrete
    vulkan_without_push_descriptors validate_adversary_vulkan
    cuda_stub validate_cuda_stub cuda_stub_without_memory_operations cuda_stub_without_graphs
    validate_adversary_cuda_stub cuda validate_cuda validate_adversary_cuda)
  add_test(NAME Cts.${device}
    COMMAND ${holdfast_once} $<TARGET_FILE:holdfast_cts> --gtest_brief=1 "--gtest_filter=*/${device}")
  # Sanitizers see the same of our code on one of a kind as on the others: with the validator, whose
  # code they see then, except that ThreadSanitizer, whose runs take longest, does without.
  set(labels quick)
  set(sanitized "^validate_(vulkan|cuda_stub)$")
  if(HOLDFAST_SANITIZE MATCHES "thread")
    set(sanitized "^(vulkan|cuda_stub)$")
  endif()
  if(device MATCHES "${sanitized}")
    list(APPEND labels sanitize)
  endif()
  set_tests_properties(Cts.${device} PROPERTIES LABELS "${labels}" SKIP_RETURN_CODE 77
    ENVIRONMENT "${holdfast_test_environment}" TIMEOUT ${holdfast_test_timeout})
endforeach()
file(GLOB cts_kernels CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/hal/cts/kernels/*.comp")
holdfast_embed_spirv(holdfast_cts cts ${cts_kernels})
file(GLOB cts_ptx CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/hal/cts/kernels/*.ptx")
holdfast_embed_text(holdfast_cts cts ${cts_ptx})

# Tests, and the program behind ./dev adversary and ./dev ablations.
file(GLOB scenario_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/runtime/scenarios/*.cc")
holdfast_add_test(holdfast_scenarios holdfast_runtime ${scenario_sources})
target_link_libraries(holdfast_scenarios PRIVATE CLI11::CLI11)
add_dependencies(holdfast_scenarios holdfast_stub_cuda)
# As on a discrete GPU, whose memory the host cannot reach.
add_test(NAME RuntimeScenario.all_on_a_discrete_vulkan_device
  COMMAND holdfast_scenarios --gtest_brief=1 "--gtest_filter=RuntimeScenario.*_vulkan_*")
set_tests_properties(RuntimeScenario.all_on_a_discrete_vulkan_device PROPERTIES LABELS quick
  ENVIRONMENT "${holdfast_test_environment};HOLDFAST_TEST_DISCRETE=1" TIMEOUT ${holdfast_test_timeout})

# Once more with the Khronos validation layers, whose every message fails its test: each program in
# one process, since loading driver and layers takes longer than most tests. Only what calls Vulkan
# differently is quick: a device that wraps another makes the same calls, and Layers.wrapped_* are
# nightly. So are Layers.queue_submit_*, which also look across submissions, as the layers can for
# one queue.
if(NOT HOLDFAST_SANITIZE)
  set(queue_submit_checks "VK_LAYER_ENABLES=VALIDATION_CHECK_ENABLE_SYNCHRONIZATION_VALIDATION_QUEUE_SUBMIT\
:VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT")
  # holdfast_add_layers_test(<name> <target> <filter> <label> [<variable>...])
  function(holdfast_add_layers_test name target filter label)
    add_test(NAME Layers.${name} COMMAND ${target} "--gtest_filter=${filter}")
    set_tests_properties(Layers.${name} PROPERTIES LABELS ${label} TIMEOUT ${holdfast_test_timeout}
      ENVIRONMENT "${holdfast_test_environment};HOLDFAST_VULKAN_LAYERS=1;${ARGN}")
  endfunction()
  holdfast_add_layers_test(cts holdfast_cts "*/vulkan*-*nightly*" quick)
  holdfast_add_layers_test(scenarios holdfast_scenarios
    "RuntimeScenario.*vulkan_plain:*VulkanHazards*-*nightly*" quick)
  holdfast_add_layers_test(random_programs holdfast_scenarios "RandomPrograms*vulkan*-*nightly*" quick)
  set(wrapped_cts "*/validate*vulkan*-*nightly*")
  set(wrapped_scenarios "RuntimeScenario.*vulkan_validate:RuntimeScenario.*vulkan_adversary-*nightly*")
  holdfast_add_layers_test(wrapped_cts holdfast_cts "${wrapped_cts}" nightly)
  holdfast_add_layers_test(wrapped_scenarios holdfast_scenarios "${wrapped_scenarios}" nightly)
  # The layers remember every submission: ten thousand of them take minutes.
  set(queue_submit_environment HOLDFAST_TEST_QUEUES=1 "${queue_submit_checks}")
  holdfast_add_layers_test(queue_submit_cts holdfast_cts
    "*ulkan*-*nightly*:*ten_thousand_*/validate_adversary_vulkan" nightly ${queue_submit_environment})
  holdfast_add_layers_test(queue_submit_scenarios holdfast_scenarios
    "RuntimeScenario.*vulkan*:*VulkanHazards*-*nightly*" nightly ${queue_submit_environment})
  holdfast_add_layers_test(queue_submit_random_programs holdfast_scenarios
    "RandomPrograms*vulkan*-*nightly*" nightly ${queue_submit_environment})
  # Kernels with bodies, of which the layers see modules, sizes and order, and no address.
  set(layered_bodies HOLDFAST_TEST_BODIES=vulkan HOLDFAST_DEVICE=vulkan)
  holdfast_add_layers_test(some_bodies holdfast_kernel_test
    "BodiesOnVulkan.agree_with_the_cpu/row_sums*:BodiesOnVulkan.agree_with_the_cpu/grid_of_three*" quick
    ${layered_bodies})
  holdfast_add_layers_test(bodies holdfast_kernel_test
    "Language*:KernelScenario*_plain:BodiesOnVulkan*:MemoryModel*-*nightly*" nightly ${layered_bodies})
  holdfast_add_layers_test(array_scenarios holdfast_array_test "Scenario.*_plain-*nightly*" nightly
    ${layered_bodies})
endif()

# Kernels with bodies on Vulkan: the language, the scenarios and the operations of other tests. What
# is quick runs what differs from the CPU most for the time it takes; the rest is nightly.
if(HOLDFAST_VULKAN AND NOT HOLDFAST_SANITIZE)
  # holdfast_add_bodies_test(<name> <target> <filter> <label> [<variable>...])
  function(holdfast_add_bodies_test name target filter label)
    add_test(NAME VulkanBodies.${name}
      COMMAND ${target} --gtest_brief=1 "--gtest_filter=${filter}")
    set_tests_properties(VulkanBodies.${name} PROPERTIES LABELS ${label} TIMEOUT ${holdfast_test_timeout}
      ENVIRONMENT "${holdfast_test_environment};HOLDFAST_TEST_BODIES=vulkan;${ARGN}")
  endfunction()
  set(by_default HOLDFAST_DEVICE=vulkan)
  set(some_operations "Creation.*:Take.*:Scatter.*:Rope.*:Attention.*:Bitwise.*:RandomUniform.*\
:Sort.positions*:BothStyles/AttentionTest.few*/many_weak:BothStyles/MatmulTest.batches*/many_weak\
:BothStyles/ScanTest*/many_weak:BothStyles/NormTest*/many_weak:CommonDtypes/*/float32")
  # Of lavapipe: loops of one thread end silently after 65,535 rounds, which bodies for few threads
  # reach; memory of 2 GiB is all it has; and it uses whole pages of the host alone.
  set(not_on_lavapipe "*/few_strong:StrongBodies.*:Scratch.*:ExternalArrays.at_any_address*:*uda*\
:RandomGraphs.*:Eval.*million*:WeakBodies*")
  holdfast_add_bodies_test(language holdfast_kernel_test "Language*:KernelScenario*-*nightly*" quick)
  holdfast_add_bodies_test(scenarios holdfast_array_test "Scenario.*_plain-*nightly*" quick ${by_default})
  holdfast_add_bodies_test(some_operations holdfast_array_test "${some_operations}-*nightly*" quick
    ${by_default})
  holdfast_add_bodies_test(all_scenarios holdfast_array_test "Scenario.*:RandomGraphs.*-*nightly*" nightly
    ${by_default})
  holdfast_add_bodies_test(all_operations holdfast_array_test "-*nightly*:Scenario.*:${not_on_lavapipe}"
    nightly ${by_default})
endif()

# The scenarios of arrays, with every call of run() in a compiled function of its own. Left out are
# those that count submissions, commands or barriers, of which a replay has others; that ask for the
# label of a call that does not compile; and one that builds arrays under a lock of its own.
set(not_compiled "*1828_calls_of*:*3347_cache_cleared*:*3347_variant_evicted*:*3378_hidden_copies_go*\
:*3630_donated*:*3675_fifth_of_nine_does*:*3675_two_tasks*:*3689_host_data*:*4174_whichever_submit*\
:*8652_drop*:*538_no_wait*:*3078_threads_build*:*nightly*")
function(holdfast_add_compiled_scenarios name filter label)
  add_test(NAME CompiledScenarios.${name} COMMAND holdfast_array_test --gtest_brief=1
    "--gtest_filter=${filter}-${not_compiled}")
  set_tests_properties(CompiledScenarios.${name} PROPERTIES LABELS ${label}
    TIMEOUT ${holdfast_test_timeout}
    ENVIRONMENT "${holdfast_shard_environment};HOLDFAST_TEST_COMPILED=1;${ARGN}")
endfunction()
holdfast_add_compiled_scenarios(validate "Scenario.*_validate" quick)
holdfast_add_compiled_scenarios(all "Scenario.*" nightly)
if(HOLDFAST_VULKAN AND NOT HOLDFAST_SANITIZE)
  holdfast_add_compiled_scenarios(on_vulkan "Scenario.*_plain:Scenario.*_validate" nightly
    HOLDFAST_TEST_BODIES=vulkan HOLDFAST_DEVICE=vulkan)
endif()

# What only a whole process can show (leaving main, fork): each file is a program that exits with 0.
file(GLOB program_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/programs/*.cc")
set(forking_programs closed_by_its_own_work cuda_at_exit statics_on_every_device transfers_at_exit)
foreach(source IN LISTS program_sources)
  cmake_path(GET source STEM name)
  holdfast_add_program(holdfast_program_${name} "${source}")
  target_link_libraries(holdfast_program_${name} PRIVATE holdfast_array)
  holdfast_compile_as_test(holdfast_program_${name})
  if(HOLDFAST_SANITIZE)
    target_sources(holdfast_program_${name} PRIVATE
      "${PROJECT_SOURCE_DIR}/tests/sanitizers/keep_modules_loaded.cc")
  endif()
  add_test(NAME Program.${name} COMMAND ${holdfast_once} $<TARGET_FILE:holdfast_program_${name}>)
  set(labels quick)
  # ThreadSanitizer does not follow a forked child that has threads. AddressSanitizer of GCC 12 does not
  # hold its allocator's locks while a process forks, so a child of threads that allocate, which is what
  # forks_while_devices_open makes by the dozen, may never end.
  if(NOT name STREQUAL "forks_while_devices_open" AND
      NOT (HOLDFAST_SANITIZE MATCHES "thread" AND name IN_LIST forking_programs))
    list(APPEND labels sanitize)
  endif()
  set_tests_properties(Program.${name} PROPERTIES LABELS "${labels}" SKIP_RETURN_CODE 77
    ENVIRONMENT "${holdfast_test_environment}" TIMEOUT ${holdfast_test_timeout})
endforeach()

add_dependencies(holdfast_program_cuda_at_exit holdfast_stub_cuda)

# The C API, called from C: with the device as it is, under the validator, and under the adversary.
# Sanitizers see it once, under the validator, and without the results of operations: compiling a
# hundred kernels for them takes longer than all else here.
file(GLOB c_tests CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/c/*.c")
list(FILTER c_tests EXCLUDE REGEX "/(at_exit|forked)\\.c$")
holdfast_add_c_program(holdfast_c_test ${c_tests})
target_link_libraries(holdfast_c_test PRIVATE m)
foreach(name at_exit forked)
  holdfast_add_c_program(holdfast_c_${name} "${PROJECT_SOURCE_DIR}/tests/c/${name}.c")
endforeach()
if(HOLDFAST_SANITIZE)
  foreach(name test at_exit forked)
    target_sources(holdfast_c_${name} PRIVATE
      "${PROJECT_SOURCE_DIR}/tests/sanitizers/keep_modules_loaded.cc")
  endforeach()
endif()
set(c_test_arguments "")
if(HOLDFAST_SANITIZE AND NOT HOLDFAST_SANITIZE_ALL)
  set(c_test_arguments -ops)
endif()
# holdfast_add_c_test(<name> <target> <labels> [<variable>...])
function(holdfast_add_c_test name target labels)
  add_test(NAME C.${name} COMMAND ${holdfast_once} $<TARGET_FILE:${target}> ${c_test_arguments})
  set_tests_properties(C.${name} PROPERTIES LABELS "${labels}" SKIP_RETURN_CODE 77
    ENVIRONMENT "${holdfast_test_environment};HOLDFAST_DEVICE=cpu;${ARGN}" TIMEOUT ${holdfast_test_timeout})
endfunction()
holdfast_add_c_test(validate holdfast_c_test "quick;sanitize")
holdfast_add_c_test(plain holdfast_c_test quick HOLDFAST_VALIDATE=0)
holdfast_add_c_test(adversary holdfast_c_test quick HOLDFAST_ADVERSARY=seed=7)
holdfast_add_c_test(at_exit holdfast_c_at_exit "quick;sanitize")
holdfast_add_c_test(forked holdfast_c_forked quick)
add_test(NAME C.every_function_is_called COMMAND "${PROJECT_SOURCE_DIR}/tests/c/check_calls")
set_tests_properties(C.every_function_is_called PROPERTIES LABELS quick
  TIMEOUT ${holdfast_test_timeout})

# Examples check their results themselves.
foreach(source IN LISTS example_sources)
  cmake_path(GET source STEM name)
  add_test(NAME Example.${name} COMMAND ${holdfast_once} $<TARGET_FILE:holdfast_example_${name}>)
  set_tests_properties(Example.${name} PROPERTIES LABELS "quick;sanitize" SKIP_RETURN_CODE 77
    ENVIRONMENT "${holdfast_test_environment}" TIMEOUT ${holdfast_test_timeout})
endforeach()

set_tests_properties(Example.saxpy PROPERTIES
  PASS_REGULAR_EXPRESSION "^array\\(\\[1, 3, 5, 7, 9, 11\\], dtype=float32\\)\n$")
set_tests_properties(Example.first PROPERTIES
  PASS_REGULAR_EXPRESSION "^array\\(\\[1, 3, 5, 7, 9, 11\\], dtype=float32\\)\narray\\(36, dtype=float32\\)\n$")

# A debugger stops in kernels. Sanitizers slow both down, and show nothing more.
if(NOT HOLDFAST_SANITIZE)
  find_program(GDB gdb REQUIRED)
  mark_as_advanced(GDB)
  set(debugger_dir "${PROJECT_SOURCE_DIR}/tests/debugger")
  holdfast_add_program(holdfast_debugged_kernels "${debugger_dir}/debugged_kernels.cc")
  target_link_libraries(holdfast_debugged_kernels PRIVATE holdfast_kernel)
  add_test(NAME Debugger.stops_in_a_kernel COMMAND "${debugger_dir}/stops_in_a_kernel"
    "$<TARGET_FILE:holdfast_debugged_kernels>" "${debugger_dir}/scale.kernel")
  set_tests_properties(Debugger.stops_in_a_kernel PROPERTIES LABELS quick SKIP_RETURN_CODE 77
    ENVIRONMENT "${holdfast_test_environment}" TIMEOUT ${holdfast_test_timeout})
endif()

add_test(NAME Lint.rules_catch_offences COMMAND "${PROJECT_SOURCE_DIR}/tools/lint/selftest")
set_tests_properties(Lint.rules_catch_offences PROPERTIES LABELS quick
  TIMEOUT ${holdfast_test_timeout})
if(NOT HOLDFAST_SANITIZE)
  add_test(NAME Mutants.weak_tests_let_them_live COMMAND "${PROJECT_SOURCE_DIR}/tools/mutants/selftest"
    "${CMAKE_CXX_COMPILER}")
  set_tests_properties(Mutants.weak_tests_let_them_live PROPERTIES LABELS quick
    TIMEOUT ${holdfast_test_timeout})
endif()

# The release package, built from this tree, used by a project of its own, and free of ablations.
if(NOT HOLDFAST_SANITIZE)
  set(ablated_library "")
  if(HOLDFAST_ABLATIONS)
    set(ablated_library "$<TARGET_FILE:holdfast_base>")
  endif()
  add_test(NAME Package.release_install_serves_a_consumer
    COMMAND "${PROJECT_SOURCE_DIR}/tests/package/install_and_consume"
      "${CMAKE_COMMAND}" "${CMAKE_CXX_COMPILER}" "${PROJECT_BINARY_DIR}/package" "${ablated_library}")
  # First, so that others run while it configures and links.
  set_tests_properties(Package.release_install_serves_a_consumer PROPERTIES LABELS quick
    COST 1000 SKIP_RETURN_CODE 77 TIMEOUT ${holdfast_test_timeout})
endif()
