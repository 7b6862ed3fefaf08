# Each file of examples/ is a program that checks its own result; folders there are projects of their
# own, which tests/package builds.
file(GLOB example_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/*.cc"
  "${PROJECT_SOURCE_DIR}/examples/*.c")
foreach(source IN LISTS example_sources)
  cmake_path(GET source STEM name)
  if(source MATCHES "\\.c$")
    holdfast_add_c_program(holdfast_example_${name} "${source}")
  else()
    holdfast_add_program(holdfast_example_${name} "${source}")
    target_link_libraries(holdfast_example_${name} PRIVATE holdfast_array)
  endif()
endforeach()
