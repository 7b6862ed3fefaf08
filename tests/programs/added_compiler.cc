// A C++ compiler that nothing in the environment leads to: found once a package has added it. In a
// process of its own, since what was added stays.
#include <holdfast/kernel/compilers.h>
#include <holdfast/kernel/targets/cpu/cpp_compiler.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace hk = holdfast::kernel;

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::_Exit(1);
}

}  // namespace

int main() {
  const auto usual = hk::CppCompiler::find();
  require(static_cast<bool>(usual), "there is a compiler here");
  setenv("PATH", "/nowhere", 1);
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
