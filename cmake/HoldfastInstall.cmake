include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(holdfast_config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/holdfast")

install(TARGETS holdfast_base holdfast_runtime holdfast_kernel holdfast_array holdfast EXPORT holdfast
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT holdfast NAMESPACE holdfast:: DESTINATION "${holdfast_config_dir}"
  FILE holdfastTargets.cmake)

# Users see the doors and what these reach, and nothing else.
include(HoldfastHeaders)
holdfast_reachable_headers(public_headers holdfast.h kernel.h runtime.h hal.h)
foreach(path IN LISTS public_headers)
  holdfast_header_file(file "${path}")
  cmake_path(GET path PARENT_PATH folder)
  install(FILES "${file}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/holdfast/${folder}")
endforeach()

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
