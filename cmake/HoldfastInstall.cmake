include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(holdfast_config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/holdfast")

set(holdfast_targets holdfast)
if(BUILD_SHARED_LIBS)
  list(APPEND holdfast_targets holdfast_shared)
else()
  list(APPEND holdfast_targets holdfast_base holdfast_runtime holdfast_kernel holdfast_array holdfast_c)
endif()
install(TARGETS ${holdfast_targets} EXPORT holdfast
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT holdfast NAMESPACE holdfast:: DESTINATION "${holdfast_config_dir}"
  FILE holdfastTargets.cmake)

# Users see include/holdfast and nothing else; tests/package/check_headers holds it to what the doors reach.
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/holdfast" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING PATTERN "*.h")

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/holdfastConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/holdfastConfig.cmake" INSTALL_DESTINATION "${holdfast_config_dir}")
# Before 1.0 a minor version may break its users.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/holdfastConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/holdfastConfig.cmake"
  "${PROJECT_BINARY_DIR}/holdfastConfigVersion.cmake"
  DESTINATION "${holdfast_config_dir}")
# For builds without CMake, such as those of other languages. Archives need more than one line says.
if(BUILD_SHARED_LIBS)
  cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
    BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig"
    OUTPUT_VARIABLE holdfast_prefix_from_pc)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/holdfast.pc.in" "${PROJECT_BINARY_DIR}/holdfast.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/holdfast.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endif()
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
