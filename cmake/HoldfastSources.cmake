# A file joins the build by its name and lies beside what it belongs to:
#   X.cc            library code
#   X_test.cc       a test of it
#   X_benchmark.cc  a benchmark of it
# Everything in src/hal/cts belongs to the conformance suite, and everything in src/runtime/scenarios
# to the scenarios, whatever its name.
#
# A library source that also lies in HOLDFAST_MUTANTS, under the same path, is taken from there.
#
# holdfast_sources(<variable> LIBRARY|TEST|BENCHMARK <folder>...)
function(holdfast_sources variable kind)
  list(TRANSFORM ARGN PREPEND "${PROJECT_SOURCE_DIR}/" OUTPUT_VARIABLE patterns)
  list(TRANSFORM patterns APPEND "/*.cc")
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${patterns})
  list(FILTER files EXCLUDE REGEX "/src/(hal/cts|runtime/scenarios)/")
  if(NOT HOLDFAST_VULKAN)
    list(FILTER files EXCLUDE REGEX "/src/(hal|kernel/targets)/vulkan/")
  endif()
  if(kind STREQUAL "LIBRARY")
    list(FILTER files EXCLUDE REGEX "_(test|benchmark)\\.cc$")
    if(HOLDFAST_MUTANTS)
      holdfast_replace_by_mutants(files)
    endif()
  elseif(kind STREQUAL "TEST")
    list(FILTER files INCLUDE REGEX "_test\\.cc$")
  elseif(kind STREQUAL "BENCHMARK")
    list(FILTER files INCLUDE REGEX "_benchmark\\.cc$")
  else()
    message(FATAL_ERROR "holdfast_sources: unknown kind '${kind}'")
  endif()
  set(${variable} ${files} PARENT_SCOPE)
endfunction()

# A changed expression need not make sense: a mutant that the tests notice is as good as one that a
# warning notices, and an operand that is no constant any more may be narrowed.
function(holdfast_replace_by_mutants variable)
  set(replaced "")
  foreach(file IN LISTS ${variable})
    cmake_path(RELATIVE_PATH file BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE relative)
    if(EXISTS "${HOLDFAST_MUTANTS}/${relative}")
      set(file "${HOLDFAST_MUTANTS}/${relative}")
      set_source_files_properties("${file}" PROPERTIES COMPILE_OPTIONS "-w;-Wno-narrowing")
    endif()
    list(APPEND replaced "${file}")
  endforeach()
  set(${variable} ${replaced} PARENT_SCOPE)
endfunction()

# holdfast_join(<out variable> <name> [<source>...]): with HOLDFAST_JOIN, files in the build folder that
# include the sources, several each, so that headers are parsed once for all of them. They name the
# sources from the root, so they are the same in every clone, and ccache knows them there. Sources that
# are generated, have definitions of their own or hold the implementation of somebody's header stay as
# they are.
function(holdfast_join out name)
  if(NOT HOLDFAST_JOIN)
    set(${out} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  set(result "")
  set(joined "")
  foreach(source IN LISTS ARGN)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE path)
    get_source_file_property(definitions "${source}" COMPILE_DEFINITIONS)
    file(STRINGS "${source}" implementation REGEX "^#define [A-Z_]*IMPLEMENTATION$" LIMIT_COUNT 1)
    if(NOT path MATCHES "^(src|tools|python/src)/" OR definitions OR implementation)
      list(APPEND result "${source}")
    else()
      list(APPEND joined "#include \"${path}\"\n")
    endif()
  endforeach()
  set(number 0)
  while(joined)
    set(text "")
    foreach(unused RANGE 1 ${HOLDFAST_JOIN})
      list(POP_FRONT joined line)
      string(APPEND text "${line}")
    endforeach()
    set(file "${PROJECT_BINARY_DIR}/joined/${name}_${number}.cc")
    file(CONFIGURE OUTPUT "${file}" CONTENT "${text}" @ONLY)
    list(APPEND result "${file}")
    math(EXPR number "${number} + 1")
  endwhile()
  set(${out} ${result} PARENT_SCOPE)
endfunction()
