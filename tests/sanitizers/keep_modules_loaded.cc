// Part of every test program under a sanitizer: what a Vulkan driver or layer keeps looks like a
// leak once the module that refers to it is unloaded, and reports about it lose their names.
extern "C" int dlclose(void*) { return 0; }  // NOLINT(readability-identifier-naming)
