// Whatever bytes lie in the kernel cache's folder: reading them never crashes, and gives either
// nothing or exactly what was written under that key.

#include <fuzzer/FuzzedDataProvider.h>
#include <stdlib.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "holdfast/base/log.h"
#include "holdfast/kernel/cache/disk_cache.h"

namespace {

namespace fs = std::filesystem;
using namespace holdfast;

// A folder of this process's own, in memory where there is such a disk.
class Folder {
 public:
  Folder() {
    const fs::path above = fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
    std::string name = (above / "holdfast-fuzz-XXXXXX").native();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "FAILED: %s\n", what);
  std::abort();
}

std::string content(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

kernel::ContentKey key_of(std::string text) {
  kernel::CompileJob job;
  job.kernel = "fuzz";
  job.code.text = std::move(text);
  return {job, "fuzz"};
}

kernel::Code code_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// A whole file, of which the input changes a part.
std::string changed(std::string file, FuzzedDataProvider& input) {
  while (input.remaining_bytes() > 0 && !file.empty()) {
    const auto at = input.ConsumeIntegralInRange<size_t>(0, file.size() - 1);
    switch (input.ConsumeIntegralInRange(0, 3)) {
      case 0: file[at] = static_cast<char>(input.ConsumeIntegral<uint8_t>()); break;
      case 1: file.resize(at); break;
      case 2: file.insert(at, input.ConsumeRandomLengthString(64)); break;
      default: file.erase(at, input.ConsumeIntegralInRange<size_t>(1, 64)); break;
    }
  }
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Folder folder;
  static const auto before = logging::set_sink([](const logging::Message&) {});
  FuzzedDataProvider input(data, size);
  static kernel::DiskCache cache(folder.path() / "kernels");

  const kernel::ContentKey key = key_of(input.ConsumeRandomLengthString(32));
  const kernel::Code code = code_of(input.ConsumeRandomLengthString(256));
  cache.write(key, code);
  const fs::path path = cache.path_of(key);
  const std::string whole = content(path);
  if (cache.read(key) != code) fail("what was written is not read");

  const std::string file =
      input.ConsumeBool() ? input.ConsumeRemainingBytesAsString() : changed(whole, input);
  std::ofstream(path, std::ios::binary | std::ios::trunc) << file;
  const auto found = cache.read(key);
  if (file == whole && found != code) fail("a whole file is not read");
  // There is one file for a key and a code: another one must not be taken for it.
  if (file != whole && found) {
    cache.write(key, *found);
    if (content(path) != file) fail("a damaged file is read");
  }
  // Under another key nothing of it is found, wherever it lies.
  const kernel::ContentKey other = key_of("another text, longer than any of the above");
  fs::create_directories(cache.path_of(other).parent_path());
  fs::permissions(cache.path_of(other).parent_path(), fs::perms::owner_all);
  std::ofstream(cache.path_of(other), std::ios::binary | std::ios::trunc) << file;
  if (const auto wrong = cache.read(other)) {
    cache.write(other, *wrong);
    if (content(cache.path_of(other)) != file) fail("the file of another key is read");
  }
  fs::remove(path);
  fs::remove(cache.path_of(other));
  return 0;
}
