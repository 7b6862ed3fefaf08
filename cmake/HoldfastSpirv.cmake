# holdfast_embed_spirv(<target> <name> <file.comp>...)
# Compiles the kernels at build time, into the target. It, and what links to it, includes
#   <embedded/NAME_spirv.h>
# for
#   std::span<const uint32_t> holdfast::embedded::NAME_spirv(std::string_view kernel);
# which gives the words of KERNEL.comp and throws std::out_of_range for a kernel that is not there.
# A kernel is one file: #include is not followed.
function(holdfast_embed_spirv target name)
  set(include_dir "${PROJECT_BINARY_DIR}/spirv")
  set(dir "${include_dir}/embedded")
  file(MAKE_DIRECTORY "${dir}/${name}")
  set(includes "")
  set(entries "")
  set(words "")
  foreach(source IN LISTS ARGN)
    cmake_path(GET source STEM kernel)
    set(output "${dir}/${name}/${kernel}.h")
    add_custom_command(OUTPUT "${output}"
      COMMAND "${GLSLANG_VALIDATOR}" -V --quiet --target-env vulkan1.2 --vn ${kernel}_words
        -o "${output}" "${source}"
      DEPENDS "${source}"
      COMMENT "Compiling ${kernel}.comp for ${target}"
      VERBATIM)
    list(APPEND words "${output}")
    string(APPEND includes "#include <embedded/${name}/${kernel}.h>\n")
    string(APPEND entries "      {\"${kernel}\", ${kernel}_words},\n")
  endforeach()
  configure_file("${PROJECT_SOURCE_DIR}/cmake/embedded_spirv.h.in" "${dir}/${name}_spirv.h" @ONLY)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/embedded_spirv.cc.in" "${dir}/${name}_spirv.cc" @ONLY)
  target_sources(${target} PRIVATE "${dir}/${name}_spirv.cc" ${words})
  target_include_directories(${target} PUBLIC "$<BUILD_INTERFACE:${include_dir}>")
endfunction()
