// A C++ compiler that nothing in the environment leads to: found once a package has added it. In a
// process of its own, since what was added stays.
#include <holdfast/kernel/compilers.h>
#include <holdfast/kernel/targets/cpu/cpp_compiler.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace hk = holdfast::kernel;

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::_Exit(1);
}

struct Remover {
  std::filesystem::path path;
  ~Remover() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

}  // namespace

int main() {
  const auto usual = hk::CppCompiler::find();
  require(static_cast<bool>(usual), "there is a compiler here");
  // A PATH that leads to what g++ itself runs, and to no compiler.
  char folder[] = "/tmp/holdfast-added-XXXXXX";
  require(mkdtemp(folder) != nullptr, "there is room for a folder");
  const std::filesystem::path path = folder;
  for (const char* tool : {"as", "ld"}) {
    std::filesystem::create_symlink(std::filesystem::path("/usr/bin") / tool, path / tool);
  }
  const Remover remover{path};
  setenv("PATH", folder, 1);
  unsetenv("CXX");
  const auto none = hk::CppCompiler::find();
  require(!none && none.failure().code() == holdfast::ErrorCode::environment,
          "without PATH there is none");
  hk::add_cpp_compiler({"/nowhere/g++"});
  require(!hk::CppCompiler::find(), "one that is not there is passed over");
  hk::add_cpp_compiler({"/usr/bin/g++"});
  const auto found = hk::CppCompiler::find();
  require(static_cast<bool>(found), "the one that was added is found");
  const auto made = found.value()->compile({.text = "extern \"C\" int f() { return 4; }"}, {});
  require(made && !made.value().object.empty(), "and compiles");
  setenv("CXX", "/nowhere/else", 1);
  require(!hk::CppCompiler::find(), "CXX decides where it is set");
}
