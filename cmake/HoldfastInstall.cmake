include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(holdfast_config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/holdfast")

install(TARGETS holdfast_base holdfast_runtime holdfast_kernel holdfast_array holdfast EXPORT holdfast
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT holdfast NAMESPACE holdfast:: DESTINATION "${holdfast_config_dir}"
  FILE holdfastTargets.cmake)

# Public headers and those of the layers share one root: <holdfast/holdfast.h>, <holdfast/base/ref.h>.
function(holdfast_install_headers root)
  list(TRANSFORM ARGN PREPEND "${PROJECT_SOURCE_DIR}/" OUTPUT_VARIABLE patterns)
  list(TRANSFORM patterns APPEND "/*.h")
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${patterns})
  list(FILTER headers EXCLUDE REGEX "/src/hal/cts/|/generate/preamble/|_(test|benchmark)\\.h$")
  foreach(header IN LISTS headers)
    cmake_path(RELATIVE_PATH header BASE_DIRECTORY "${PROJECT_SOURCE_DIR}/${root}"
      OUTPUT_VARIABLE relative)
    cmake_path(GET relative PARENT_PATH folder)
    install(FILES "${header}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/holdfast/${folder}")
  endforeach()
endfunction()
holdfast_install_headers(include/holdfast include/holdfast)
holdfast_install_headers(src src/base src/hal src/runtime src/kernel src/array)

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/holdfastConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/holdfastConfig.cmake" INSTALL_DESTINATION "${holdfast_config_dir}")
# Before 1.0 a minor version may break its users.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/holdfastConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/holdfastConfig.cmake"
  "${PROJECT_BINARY_DIR}/holdfastConfigVersion.cmake"
  DESTINATION "${holdfast_config_dir}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
