# Which headers are public: those that users include (the doors) and what these include in turn.
#
# holdfast_reachable_headers(<variable> <door>...): paths below include/holdfast or src, as in
# #include <holdfast/PATH>; sorted.
function(holdfast_reachable_headers variable)
  set(found "")
  set(left ${ARGN})
  while(left)
    list(POP_FRONT left path)
    if(path IN_LIST found)
      continue()
    endif()
    list(APPEND found "${path}")
    holdfast_header_file(file "${path}")
    file(STRINGS "${file}" includes REGEX "^#include [<\"]holdfast/")
    foreach(line IN LISTS includes)
      string(REGEX REPLACE "^#include [<\"]holdfast/([^>\"]+)[>\"].*$" "\\1" path "${line}")
      list(APPEND left "${path}")
    endforeach()
  endwhile()
  list(SORT found)
  set(${variable} ${found} PARENT_SCOPE)
endfunction()

# Where a header lies.
function(holdfast_header_file variable path)
  foreach(root include/holdfast src)
    if(EXISTS "${PROJECT_SOURCE_DIR}/${root}/${path}")
      set(${variable} "${PROJECT_SOURCE_DIR}/${root}/${path}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "there is no header holdfast/${path}")
endfunction()
