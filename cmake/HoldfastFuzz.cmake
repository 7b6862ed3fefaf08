# Fuzz targets: fuzz/X.cc is the program holdfast_fuzz_X. For clang with libFuzzer; see the preset
# "fuzz" and ./dev fuzz. Everything is compiled so that libFuzzer sees its branches.
file(GLOB fuzz_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/fuzz/*.cc")
foreach(source IN LISTS fuzz_sources)
  cmake_path(GET source STEM name)
  holdfast_add_program(holdfast_fuzz_${name} "${source}")
  target_link_libraries(holdfast_fuzz_${name} PRIVATE holdfast_kernel)
  target_link_options(holdfast_fuzz_${name} PRIVATE -fsanitize=fuzzer)
endforeach()
