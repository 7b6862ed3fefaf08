# docs/dependencies.md says why each is here.

find_package(Threads REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(Boost 1.74 CONFIG REQUIRED COMPONENTS context)

# Used as a header (XXH_INLINE_ALL), in sources only: nothing to link, nothing to install.
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
mark_as_advanced(XXHASH_INCLUDE_DIR)

# The Vulkan device and its kernels: on where what they need is found. Vulkan itself is loaded at run
# time, through volk used as a header: nothing to link. glslang compiles GLSL; its targets name those
# of SPIRV-Tools without finding them.
find_path(VOLK_INCLUDE_DIR volk.h)
mark_as_advanced(VOLK_INCLUDE_DIR)
foreach(package SPIRV-Tools SPIRV-Tools-opt SPIRV-Tools-link glslang)
  find_package(${package} CONFIG QUIET)
endforeach()
set(holdfast_has_vulkan OFF)
if(VOLK_INCLUDE_DIR AND SPIRV-Tools_FOUND AND SPIRV-Tools-opt_FOUND AND SPIRV-Tools-link_FOUND
    AND glslang_FOUND)
  set(holdfast_has_vulkan ON)
endif()
option(HOLDFAST_VULKAN "The Vulkan device, and kernels in GLSL and SPIR-V" ${holdfast_has_vulkan})
if(HOLDFAST_VULKAN AND NOT holdfast_has_vulkan)
  message(FATAL_ERROR "HOLDFAST_VULKAN needs volk, SPIRV-Tools and glslang "
    "(Debian: libvulkan-volk-dev spirv-tools glslang-dev)")
endif()
if(NOT HOLDFAST_VULKAN)
  message(STATUS "Holdfast is built without its Vulkan device")
  if(HOLDFAST_BUILD_TESTS OR HOLDFAST_BUILD_BENCHMARKS OR HOLDFAST_BUILD_TOOLS)
    message(FATAL_ERROR "tests, benchmarks and tools need HOLDFAST_VULKAN")
  endif()
endif()
if(HOLDFAST_BUILD_TESTS OR HOLDFAST_BUILD_BENCHMARKS OR HOLDFAST_BUILD_TOOLS)
  find_program(GLSLANG_VALIDATOR glslangValidator REQUIRED)
  mark_as_advanced(GLSLANG_VALIDATOR)
endif()

if(HOLDFAST_BUILD_TESTS)
  find_package(GTest 1.12 REQUIRED)
  find_package(rapidcheck REQUIRED)
endif()
if(HOLDFAST_BUILD_BENCHMARKS)
  find_package(benchmark 1.7 REQUIRED)
endif()
if(HOLDFAST_BUILD_TESTS OR HOLDFAST_BUILD_BENCHMARKS OR HOLDFAST_BUILD_TOOLS)
  find_package(CLI11 2.1 REQUIRED)
endif()
if(HOLDFAST_BUILD_BENCHMARKS OR HOLDFAST_BUILD_TOOLS)
  find_package(nlohmann_json 3.11 REQUIRED)
endif()
