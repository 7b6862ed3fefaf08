file(GLOB bench_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tools/bench/*.cc")
file(GLOB demo_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tools/demo/*.cc")
holdfast_sources(benchmark_sources BENCHMARK src)

if(HOLDFAST_BUILD_BENCHMARKS AND (bench_sources OR benchmark_sources))
  holdfast_join(benchmark_sources holdfast_bench ${benchmark_sources})
  holdfast_add_program(holdfast_bench ${bench_sources} ${benchmark_sources})
  target_link_libraries(holdfast_bench PRIVATE
    holdfast_workloads holdfast_array benchmark::benchmark CLI11::CLI11 nlohmann_json::nlohmann_json)
  # Workload 3 is what examples/turboquant.cc runs.
  target_include_directories(holdfast_bench PRIVATE "${PROJECT_SOURCE_DIR}")
  file(GLOB vulkan_bench_kernels CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/hal/vulkan/kernels/*.comp")
  holdfast_embed_spirv(holdfast_bench vulkan_bench ${vulkan_bench_kernels})
  holdfast_precompile(holdfast_bench LIBRARY)
  if(NOT bench_sources)
    target_link_libraries(holdfast_bench PRIVATE benchmark::benchmark_main)
  endif()
endif()

if(HOLDFAST_BUILD_TOOLS AND demo_sources)
  holdfast_add_program(holdfast_demo ${demo_sources})
  target_link_libraries(holdfast_demo PRIVATE
    holdfast_workloads CLI11::CLI11 nlohmann_json::nlohmann_json)
endif()

# Beside tests they are there for clang-tidy alone: no test runs them. The bench preset builds what
# measures and shows, and nightly does so.
foreach(tool holdfast_bench holdfast_demo)
  if(HOLDFAST_BUILD_TESTS AND TARGET ${tool})
    set_target_properties(${tool} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endforeach()
