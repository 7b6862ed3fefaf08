# One shared library with all components: what a program does not call costs it nothing but disk, and
# private parts of one component stay private to the others. Tests and tools, which reach behind the
# public headers, link the archives it is made from.

# As users in C see it: a library with its headers, and nothing that C++ needs.
add_library(holdfast_shared SHARED
  $<TARGET_OBJECTS:holdfast_base> $<TARGET_OBJECTS:holdfast_runtime>
  $<TARGET_OBJECTS:holdfast_kernel> $<TARGET_OBJECTS:holdfast_array> $<TARGET_OBJECTS:holdfast_c>)
target_include_directories(holdfast_shared PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>")
target_link_libraries(holdfast_shared
  PRIVATE fmt::fmt Boost::headers Boost::context Threads::Threads ${CMAKE_DL_LIBS})
if(HOLDFAST_VULKAN)
  target_link_libraries(holdfast_shared PRIVATE SPIRV-Tools-static
    glslang::SPIRV glslang::glslang glslang::glslang-default-resource-limits)
endif()
# Nothing of the archives of others is ours to export; nothing may be missing.
target_link_options(holdfast_shared PRIVATE -Wl,--exclude-libs,ALL -Wl,--no-undefined)
# Before 1.0 a minor version may break its users: docs/versions.md.
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(holdfast_soversion "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
else()
  set(holdfast_soversion "${PROJECT_VERSION_MAJOR}")
endif()
set_target_properties(holdfast_shared PROPERTIES OUTPUT_NAME holdfast EXPORT_NAME c
  VERSION "${PROJECT_VERSION}" SOVERSION "${holdfast_soversion}")
holdfast_sanitize(holdfast_shared)

# The same with what its C++ headers need.
add_library(holdfast INTERFACE)
target_compile_features(holdfast INTERFACE cxx_std_20)
target_link_libraries(holdfast INTERFACE holdfast_shared Boost::headers)
