# What every target is compiled with, and how a library or program of this project is declared.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
# The archives are linked into shared objects, such as language bindings.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
  endif()
  # Objects do not depend on where the checkout lies, so clones share one cache. The checksum of a
  # precompiled header stands beside it: holdfast_precompile.
  find_program(CCACHE_PROGRAM ccache)
  if(CCACHE_PROGRAM AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env
      "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1 CCACHE_PCH_EXTSUM=1
      CCACHE_SLOPPINESS=pch_defines,time_macros "${CCACHE_PROGRAM}")
    set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  endif()
  find_program(LLD_PROGRAM ld.lld)
  if(LLD_PROGRAM)
    add_link_options(-fuse-ld=lld)
  endif()
endif()

if(HOLDFAST_SANITIZE)
  add_link_options(-fsanitize=${HOLDFAST_SANITIZE})
endif()
# holdfast_sanitize(<target>): as HOLDFAST_SANITIZE says, unless holdfast_not_sanitized is set.
function(holdfast_sanitize target)
  if(HOLDFAST_SANITIZE AND NOT holdfast_not_sanitized)
    target_compile_options(${target} PRIVATE -fsanitize=${HOLDFAST_SANITIZE} -fno-sanitize-recover=all
      -fno-omit-frame-pointer)
    if(HOLDFAST_SANITIZE MATCHES "undefined" AND NOT HOLDFAST_SANITIZE_ALL)
      # They triple the time that compiling takes, and AddressSanitizer stops at most of what they find.
      target_compile_options(${target} PRIVATE
        -fno-sanitize=null,object-size,vptr,alignment,pointer-overflow)
    endif()
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # The flow analysis behind it is not reliable on instrumented code.
      target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
    endif()
  endif()
endfunction()

# Sources say "holdfast/base/ref.h" both here and once installed.
file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/include")
file(CREATE_LINK "${PROJECT_SOURCE_DIR}/src" "${PROJECT_BINARY_DIR}/include/holdfast" SYMBOLIC)

if(HOLDFAST_JOIN)
  include_directories("${PROJECT_SOURCE_DIR}")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC looks for garbage from 128 MiB on, again and again: a seventh of the time that joined sources
    # take (array tests: 20.2 s against 17.2), for a fifth of the memory (1.1 GB against 1.3).
    add_compile_options("SHELL:--param ggc-min-heapsize=1048576")
  endif()
endif()

function(holdfast_set_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
    -Wnon-virtual-dtor -Woverloaded-virtual)
  if(HOLDFAST_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
      # GCC 12 reports overlaps and bounds inside std::string's own operator+ (GCC bug 105651) and
      # impossible sizes inside boost::container's inline storage.
      target_compile_options(${target} PRIVATE -Wno-restrict -Wno-stringop-overread -Wno-stringop-overflow
        -Wno-array-bounds)
    endif()
    if(HOLDFAST_JOIN)
      # One takes an included source for a header; the other sees the names of sources beside it.
      target_compile_options(${target} PRIVATE -Wno-subobject-linkage -Wno-shadow)
    endif()
  endif()
endfunction()

# holdfast_add_library(<target> <exported name> [<source>...])
function(holdfast_add_library target export_name)
  holdfast_join(sources ${target} ${ARGN})
  if(NOT sources)
    # A layer may consist of headers alone; an archive needs one object.
    set(sources "${PROJECT_BINARY_DIR}/empty.cc")
    file(TOUCH "${sources}")
  endif()
  add_library(${target} STATIC ${sources})
  add_library(holdfast::${export_name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${export_name})
  target_compile_features(${target} PUBLIC cxx_std_20)
  # Public headers say what they show.
  set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden)
  target_include_directories(${target} PUBLIC
    "$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>"
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>")
  holdfast_set_warnings(${target})
  holdfast_sanitize(${target})
endfunction()

# holdfast_add_program(<target> <source>...)
function(holdfast_add_program target)
  add_executable(${target} ${ARGN})
  holdfast_set_warnings(${target})
  holdfast_sanitize(${target})
endfunction()

# holdfast_add_c_program(<target> <source>...): a user of the C API, in C99.
function(holdfast_add_c_program target)
  add_executable(${target} ${ARGN})
  set_target_properties(${target} PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow
    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>)
  if(HOLDFAST_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  target_link_libraries(${target} PRIVATE holdfast_c)
  holdfast_sanitize(${target})
endfunction()

# holdfast_precompile(<target> TEST|LIBRARY): the target's sources begin with headers of the standard
# library and fmt and, for TEST, GoogleTest, parsed once for all targets with the same options. Lint
# and the release build go without, so every file still includes what it uses.
set(holdfast_precompiled_LIBRARY <algorithm> <array> <atomic> <chrono> <condition_variable> <cstddef>
  <cstdint> <cstring> <deque> <exception> <functional> <iterator> <limits> <map> <memory>
  <mutex> <numeric> <optional> <source_location> <span> <sstream> <stdexcept> <string> <string_view>
  <thread> <tuple> <type_traits> <unordered_map> <utility> <variant> <vector> <fmt/format.h>)
set(holdfast_precompiled_TEST ${holdfast_precompiled_LIBRARY} <gtest/gtest.h> <gmock/gmock.h>)
function(holdfast_precompile target kind)
  if(NOT HOLDFAST_PRECOMPILE)
    return()
  endif()
  # What ccache needs to look behind a precompiled header.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  else()
    target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
  get_target_property(options ${target} COMPILE_OPTIONS)
  get_target_property(type ${target} TYPE)
  string(SHA256 digest "${kind} ${type} ${holdfast_precompiled_${kind}} ${options}
    ${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_RELWITHDEBINFO} ${CMAKE_BUILD_TYPE}
    ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} ${fmt_VERSION} ${GTest_VERSION}")
  string(SUBSTRING "${digest}" 0 12 name)
  get_property(owner GLOBAL PROPERTY holdfast_precompiled_${name})
  if(owner)
    target_precompile_headers(${target} REUSE_FROM ${owner})
    return()
  endif()
  set_property(GLOBAL PROPERTY holdfast_precompiled_${name} ${target})
  target_precompile_headers(${target} PRIVATE ${holdfast_precompiled_${kind}})
  set(ending gch)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set(ending pch)
  endif()
  file(WRITE "${PROJECT_BINARY_DIR}/CMakeFiles/${target}.dir/cmake_pch.hxx.${ending}.sum" "${digest}\n")
endfunction()
