# Programs of the kind that Holdfast is for, shared by tests, demo and benchmarks.
file(GLOB workload_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tools/workloads/*.cc")
list(FILTER workload_sources EXCLUDE REGEX "_test\\.cc$")
holdfast_join(workload_sources holdfast_workloads ${workload_sources})
add_library(holdfast_workloads STATIC ${workload_sources})
target_include_directories(holdfast_workloads PUBLIC "${PROJECT_SOURCE_DIR}/tools")
target_link_libraries(holdfast_workloads PUBLIC holdfast_kernel)
holdfast_set_warnings(holdfast_workloads)
