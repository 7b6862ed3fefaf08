# docs/dependencies.md says why each is here.

find_package(Threads REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(Boost 1.74 CONFIG REQUIRED COMPONENTS context)

# Used as a header (XXH_INLINE_ALL), in sources only: nothing to link, nothing to install.
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
mark_as_advanced(XXHASH_INCLUDE_DIR)

# Vulkan is loaded at run time, through volk used as a header: nothing to link.
find_path(VOLK_INCLUDE_DIR volk.h REQUIRED)
mark_as_advanced(VOLK_INCLUDE_DIR)
find_package(SPIRV-Tools CONFIG REQUIRED)

# Compiles GLSL. Its targets name these of SPIRV-Tools without finding them.
find_package(SPIRV-Tools-opt CONFIG REQUIRED)
find_package(SPIRV-Tools-link CONFIG REQUIRED)
find_package(glslang CONFIG REQUIRED)
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
