#include "holdfast/kernel/targets/cpu/shared_object.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "holdfast/base/sync/process.h"
#include "holdfast/hal/unique_fd.h"
#include "holdfast/kernel/compilers/descriptors.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

namespace holdfast::kernel {

namespace {

constexpr size_t kMaxMemfdName = 200;

hal::UniqueFd memory_file(std::string_view kernel, std::span<const std::byte> bytes) {
  const std::string name = fmt::format("holdfast:{}", kernel.substr(0, kMaxMemfdName));
  hal::UniqueFd fd =
      off_standard(hal::UniqueFd(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_EXEC)));
  // Before Linux 6.3 every one could be executed, and the flag is unknown.
  if (!fd && errno == EINVAL) {
    fd = off_standard(hal::UniqueFd(memfd_create(name.c_str(), MFD_CLOEXEC)));
  }
  while (fd && !bytes.empty()) {
    const ssize_t written = ::write(fd.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return {};
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return fd;
}

// A path to the descriptor that was never used before. The loader takes an object whose path it
// knows for the one that it has, and numbers of descriptors come back; so each path spells a number
// of its own, a bit by "/" or "./".
std::string unique_path(int fd) {
  static std::atomic<uint64_t> next{1};
  std::string path = "/proc/self/fd/";
  for (uint64_t bits = next.fetch_add(1, std::memory_order_relaxed); bits != 0; bits >>= 1U) {
    path += (bits & 1U) != 0 ? "./" : "/";
  }
  return path + std::to_string(fd);
}

struct OpenedObject {
  void* handle = nullptr;
  std::string why;
};

// The loader's own lock: a child forked while another thread has it could never load anything.
OpenedObject open_object(const std::string& path) {
  const sync::NoFork whole;
  OpenedObject result;
  result.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (result.handle == nullptr) {
    const char* const error = dlerror();  // NOLINT(concurrency-mt-unsafe): it is per thread
    result.why = error != nullptr ? error : "no reason given";
    if (result.why.starts_with(path + ": ")) result.why.erase(0, path.size() + 2);
  }
  return result;
}

Failure failure(std::string_view kernel, const std::string& why) {
  const bool of_text = why.find("undefined symbol") != std::string::npos;
  return Failure(of_text ? ErrorCode::usage : ErrorCode::environment,
                 fmt::format("the code of kernel '{}' cannot be loaded: {}{}", kernel, why,
                             of_text ? "; define it in the kernel's text" : ""));
}

Failure named(std::string_view kernel, const Failure& failure) {
  return Failure(failure.code(), fmt::format("kernel '{}': {}", kernel, failure.message()));
}

}  // namespace

Result<std::shared_ptr<const SharedObject>> SharedObject::load(std::string_view kernel,
                                                               std::span<const std::byte> bytes) {
  OpenedObject opened;
  if (const hal::UniqueFd fd = memory_file(kernel, bytes)) {
    opened = open_object(unique_path(fd.get()));
  }
  if (opened.handle == nullptr && opened.why.find("undefined symbol") == std::string::npos) {
    Result<PrivateFolder> folder = PrivateFolder::make("load a kernel");
    if (!folder) return named(kernel, folder.failure());
    if (Failure full = folder.value().write("kernel.so", bytes)) return named(kernel, full);
    opened = open_object(folder.value().file("kernel.so"));
  }
  if (opened.handle == nullptr) return failure(kernel, opened.why);
  return std::shared_ptr<const SharedObject>(new SharedObject(opened.handle));
}

Result<std::shared_ptr<const SharedObject>> SharedObject::load_in(
    PrivateFolder folder, std::string_view kernel, std::span<const std::byte> bytes) {
  if (Failure full = folder.write("kernel.so", bytes)) return named(kernel, full);
  const OpenedObject opened = open_object(folder.file("kernel.so"));
  if (opened.handle == nullptr) return failure(kernel, opened.why);
  std::shared_ptr<SharedObject> object(new SharedObject(opened.handle));
  object->folder_ = std::move(folder);
  return std::shared_ptr<const SharedObject>(std::move(object));
}

SharedObject::~SharedObject() {
  const sync::NoFork whole;
  dlclose(handle_);
}

void* SharedObject::find(const std::string& symbol) const {
  const sync::NoFork whole;
  return dlsym(handle_, symbol.c_str());
}

}  // namespace holdfast::kernel
