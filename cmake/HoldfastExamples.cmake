# Each file of examples/ is a program that checks its own result; folders there are projects of their
# own, which tests/package builds.
file(GLOB example_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/*.cc")
foreach(source IN LISTS example_sources)
  cmake_path(GET source STEM name)
  holdfast_add_program(holdfast_example_${name} "${source}")
  target_link_libraries(holdfast_example_${name} PRIVATE holdfast_array)
endforeach()
