#include "holdfast/kernel/compilers/private_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "holdfast/base/env.h"
#include "holdfast/hal/unique_fd.h"

namespace holdfast::kernel {

namespace {

Failure failure(std::string_view what, std::string_view path, int error) {
  return Failure(ErrorCode::environment,
                 fmt::format("{} '{}': {}; make room there, or set TMPDIR to a folder that can be "
                             "written",
                             what, path, std::generic_category().message(error)));
}

}  // namespace

Result<PrivateFolder> PrivateFolder::make(std::string_view purpose) {
  const std::string parent = env::text("TMPDIR").value_or("/tmp");
  std::error_code error;
  // Relative names in it would mean something else in a program that runs elsewhere.
  std::string path = std::filesystem::absolute(parent, error).string();
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  path += "/holdfast-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    return failure(fmt::format("cannot make a folder, to {}, in", purpose), parent, errno);
  }
  return PrivateFolder(std::move(path));
}

PrivateFolder::~PrivateFolder() {
  if (path_.empty() || fork_generation_ != sync::fork_generation()) return;
  std::error_code ignored;  // what cannot be removed is the next cleaner's
  std::filesystem::remove_all(path_, ignored);
}

std::string PrivateFolder::file(std::string_view name) const {
  return fmt::format("{}/{}", path_, name);
}

Failure PrivateFolder::write(std::string_view name, std::span<const std::byte> content) const {
  const std::string path = file(name);
  const hal::UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd) return failure("cannot write", path_, errno);
  while (!content.empty()) {
    const ssize_t written = ::write(fd.get(), content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failure("cannot write into", path_, errno);
    content = content.subspan(static_cast<size_t>(written));
  }
  return {};
}

Result<std::string> PrivateFolder::read(std::string_view name) const {
  const std::string path = file(name);
  const hal::UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!fd || fstat(fd.get(), &status) != 0) return failure("cannot read from", path_, errno);
  std::string content(static_cast<size_t>(status.st_size), '\0');
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t got = ::read(fd.get(), content.data() + done, content.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failure("cannot read from", path_, errno);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  content.resize(done);
  return content;
}

}  // namespace holdfast::kernel
