// Part of every test program under a sanitizer: what a Vulkan driver or layer keeps looks like a
// leak once the module that refers to it is unloaded, and reports about it lose their names.
// Kernels of ours are unloaded as ever.
#include <dlfcn.h>
#include <link.h>

#include <string_view>

extern "C" int dlclose(void* handle) {  // NOLINT(readability-identifier-naming)
  link_map* module = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &module) != 0 || module == nullptr) return 0;
  const std::string_view name = module->l_name;
  if (!name.starts_with("/proc/self/fd/") && !name.ends_with("/kernel.so")) return 0;
  static const auto real = reinterpret_cast<int (*)(void*)>(dlsym(RTLD_NEXT, "dlclose"));
  return real(handle);
}
