# holdfast_embed_text(<target> <name> <file>...)
# Puts files into the target. It, and what links to it, includes
#   <embedded/NAME_text.h>
# for
#   std::string_view holdfast::embedded::NAME_text(std::string_view file);
#   std::span<const std::string_view> holdfast::embedded::NAME_text_files();
# which give the content of a file by its name without folders, throwing std::out_of_range for one
# that is not there, and all of these names, sorted.
function(holdfast_embed_text target name)
  set(include_dir "${PROJECT_BINARY_DIR}/text")
  set(dir "${include_dir}/embedded")
  set(names "")
  set(entries "")
  set(files ${ARGN})
  list(SORT files COMPARE FILE_BASENAME)
  foreach(source IN LISTS files)
    # The content is read now, so that a change configures again.
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${source}")
    cmake_path(GET source FILENAME file)
    file(READ "${source}" content)
    string(APPEND names "    \"${file}\",\n")
    string(APPEND entries "      {\"${file}\", R\"holdfast_text(${content})holdfast_text\"},\n")
  endforeach()
  configure_file("${PROJECT_SOURCE_DIR}/cmake/embedded_text.h.in" "${dir}/${name}_text.h" @ONLY)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/embedded_text.cc.in" "${dir}/${name}_text.cc" @ONLY)
  target_sources(${target} PRIVATE "${dir}/${name}_text.cc")
  target_include_directories(${target} PUBLIC "$<BUILD_INTERFACE:${include_dir}>")
endfunction()
