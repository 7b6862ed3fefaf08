#include "holdfast/kernel/targets/cpu/cpp_compiler.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include "holdfast/base/sanitizers.h"
#include "holdfast/base/sync/thread.h"
#include "holdfast/hal/unique_fd.h"
#include "holdfast/kernel/compilers/private_folder.h"
#include "holdfast/kernel/targets/cpu/shared_object.h"
#include "holdfast/testing/temporary_folder.h"
#include "holdfast/testing/variable.h"

namespace holdfast::kernel {
namespace {

using holdfast::testing::Variable;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kAnswer =
    "extern \"C\" __attribute__((visibility(\"default\"))) int answer(float* x, int n) {\n"
    "  for (int i = 0; i < n; ++i) x[i] = 2 * x[i];\n"
    "  return 42;\n"
    "}\n";

CppOutcome compile(const CppUnit& unit, const CppOptions& options = {}) {
  return CppCompiler::find().or_raise()->compile(unit, options).or_raise();
}

std::string failure_to_find() {
  const auto found = CppCompiler::find();
  EXPECT_FALSE(found);
  if (found) return {};
  EXPECT_EQ(found.failure().code(), ErrorCode::environment);
  return found.failure().message();
}

// A program of this text, in a folder of its own.
class Script {
 public:
  Script(const std::string& name, const std::string& text) {
    folder_.write(name, "#!/bin/sh\n" + text).raise_if_any();
    EXPECT_EQ(chmod(folder_.file(name).c_str(), 0700), 0);
  }
  const std::string& folder() const { return folder_.path(); }

 private:
  PrivateFolder folder_ = PrivateFolder::make("test").or_raise();
};

TEST(CppCompiler, a_unit_becomes_an_object_that_runs) {
  for (const bool generated : {true, false}) {
    for (const MathMode math : {MathMode::safe, MathMode::fast}) {
      for (const bool debug : {true, false}) {
        const CppOutcome outcome = compile({kAnswer, math, generated}, {.debug = debug});
        ASSERT_FALSE(outcome.object.empty()) << outcome.messages;
        const auto object = SharedObject::load("k", outcome.object).or_raise();
        float x = 3;
        EXPECT_EQ(reinterpret_cast<int (*)(float*, int)>(object->find("answer"))(&x, 1), 42);
        EXPECT_EQ(x, 6.0F);
      }
    }
  }
}

TEST(CppCompiler, the_same_unit_gives_the_same_bytes_and_the_same_messages) {
  EXPECT_EQ(compile({kAnswer}).object, compile({kAnswer}).object);
  EXPECT_EQ(compile({kAnswer}, {.debug = true}).object, compile({kAnswer}, {.debug = true}).object);
  for (const std::string text :
       {"int f() { return g(); }", "int g(); extern \"C\" int f() { return g(); }"}) {
    const CppOutcome a = compile({text});
    EXPECT_THAT(a.object, IsEmpty());
    EXPECT_NE(a.messages, "");
  }
  const CppUnit wrong{"int f() { return g(); }"};
  EXPECT_EQ(compile(wrong).messages, compile(wrong).messages);
}

TEST(CppCompiler, fast_math_says_so_and_does_not_change_how_the_process_rounds) {
  const CppUnit asks{
      "extern \"C\" __attribute__((visibility(\"default\"))) int fast() {\n"
      "#ifdef __FAST_MATH__\n  return 1;\n#else\n  return 0;\n#endif\n}\n"};
  for (const bool generated : {true, false}) {
    for (const MathMode math : {MathMode::safe, MathMode::fast}) {
      const CppOutcome outcome = compile({asks.text, math, generated});
      ASSERT_FALSE(outcome.object.empty()) << outcome.messages;
      const auto object = SharedObject::load("k", outcome.object).or_raise();
      EXPECT_EQ(reinterpret_cast<int (*)()>(object->find("fast"))(),
                math == MathMode::fast ? 1 : 0);
      volatile float tiny = 1e-40F;
      EXPECT_NE(tiny * 0.5F, 0.0F) << "denormal numbers are flushed";
    }
  }
}

TEST(CppCompiler, half_precision_and_functions_of_the_c_library_are_there) {
  const CppOutcome outcome =
      compile({"extern \"C\" float expf(float);\n"
               "extern \"C\" __attribute__((visibility(\"default\"))) float f(float x) {\n"
               "  static __thread float last; last = expf(_Float16(x)); return last;\n}\n"});
  ASSERT_FALSE(outcome.object.empty()) << outcome.messages;
  const auto object = SharedObject::load("k", outcome.object).or_raise();
  EXPECT_EQ(reinterpret_cast<float (*)(float)>(object->find("f"))(0), 1.0F);
}

TEST(CppCompiler, generated_text_finds_no_header_and_an_authors_finds_the_standard_ones_only) {
  const PrivateFolder folder = PrivateFolder::make("test").or_raise();
  folder.write("mine.h", "int mine;").raise_if_any();
  EXPECT_THAT(compile({"#include <cmath>\n"}).object, IsEmpty());
  const CppOutcome standard = compile({"#include <cmath>\n", MathMode::safe, false});
  EXPECT_FALSE(standard.object.empty()) << standard.messages;
  for (const bool generated : {true, false}) {
    const CppOutcome own =
        compile({"#include \"" + folder.file("mine.h") + "\"\n", MathMode::safe, generated});
    EXPECT_THAT(own.object, IsEmpty());
    EXPECT_THAT(own.messages, AllOf(HasSubstr("includes the file"), HasSubstr("mine.h")));
  }
}

TEST(CppCompiler, what_has_no_definition_is_an_error_of_the_unit) {
  const CppOutcome outcome =
      compile({"float missing(float); extern \"C\" __attribute__((visibility(\"default\"))) float "
               "f(float x) { return missing(x); }"});
  EXPECT_THAT(outcome.object, IsEmpty());
  EXPECT_THAT(outcome.messages, HasSubstr("undefined reference"));
  // A function without its return would run on into whatever comes after it.
  EXPECT_THAT(compile({"int f(int x) { if (x) return 1; }"}).messages, HasSubstr("return"));
}

TEST(CppCompiler, the_version_tells_compilers_and_options_apart) {
  const auto compiler = CppCompiler::find().or_raise();
  const std::string version = compiler->version({});
  EXPECT_EQ(version, CppCompiler::find().or_raise()->version({}));
  EXPECT_THAT(version, AllOf(HasSubstr("version 1"), HasSubstr("-O3")));
  EXPECT_NE(version, compiler->version({.debug = true}));
  EXPECT_NE(version, compiler->version({.sanitize = true}));
}

TEST(CppCompiler, what_it_is_is_asked_once) {
  const auto first = CppCompiler::find().or_raise();
  EXPECT_EQ(first, CppCompiler::find().or_raise());
}

TEST(CppCompiler, without_a_compiler_the_message_says_what_to_install) {
  const PrivateFolder empty = PrivateFolder::make("test").or_raise();
  const Variable no_cxx("CXX", nullptr);
  const Variable path("PATH", empty.path().c_str());
  EXPECT_THAT(failure_to_find(), AllOf(HasSubstr("need a C++ compiler"), HasSubstr("g++")));
}

TEST(CppCompiler, cxx_names_the_compiler_with_its_arguments) {
  {
    const Variable cxx("CXX", "no-such-compiler -x");
    EXPECT_THAT(failure_to_find(),
                AllOf(HasSubstr("CXX is 'no-such-compiler -x'"), HasSubstr("no such program")));
  }
  {
    const Variable cxx("CXX", "true");
    EXPECT_THAT(failure_to_find(), HasSubstr("no compiler of the families"));
  }
  const Script old("g++", "echo 'gcc version 9.4.0 (old)' >&2\n");
  {
    const Variable cxx("CXX", (old.folder() + "/g++").c_str());
    EXPECT_THAT(failure_to_find(), AllOf(HasSubstr("too old"), HasSubstr("9.4.0")));
  }
  const Variable cxx("CXX", "g++ -DFROM_CXX=7");
  const CppOutcome outcome = compile({"static_assert(FROM_CXX == 7);"});
  EXPECT_FALSE(outcome.object.empty()) << outcome.messages;
}

TEST(CppCompiler, an_old_compiler_is_passed_over_for_a_newer_one) {
  const Script old("g++", "echo 'gcc version 9.4.0 (old)' >&2\n");
  const Variable no_cxx("CXX", nullptr);
  const Variable path("PATH", (old.folder() + ":/usr/bin:/bin").c_str());
  EXPECT_TRUE(CppCompiler::find()) << CppCompiler::find().failure().message();
}

TEST(CppCompiler, variables_of_the_user_do_not_reach_the_compiler) {
  const PrivateFolder folder = PrivateFolder::make("test").or_raise();
  const Variable colors("GCC_COLORS", "error=01;31");
  const Variable language("LC_ALL", "de_DE.UTF-8");
  const Variable path("CPLUS_INCLUDE_PATH", folder.path().c_str());
  const Variable preload("LD_PRELOAD", "/no/such/library.so");
  // A new search: the environment is taken with it.
  const Variable cxx("CXX", "g++ -DANOTHER");
  folder.write("mine.h", "int mine;").raise_if_any();
  const CppOutcome outcome = compile({"#include <mine.h>\n", MathMode::safe, false});
  EXPECT_THAT(outcome.messages,
              AllOf(HasSubstr("error: mine.h: No such file"), Not(HasSubstr("preload"))));
}

TEST(CppCompiler, a_folder_for_temporary_files_that_cannot_be_used_is_named) {
  const auto failure = [] {
    const auto outcome = CppCompiler::find().or_raise()->compile({kAnswer}, {});
    EXPECT_FALSE(outcome);
    return outcome ? Failure() : outcome.failure();
  };
  const Variable missing("TMPDIR", "/no/such/folder");
  ASSERT_TRUE(failure());
  EXPECT_EQ(failure().code(), ErrorCode::environment);
  EXPECT_THAT(failure().message(), AllOf(HasSubstr("'/no/such/folder'"), HasSubstr("TMPDIR")));
}

TEST(CppCompiler, nothing_stays_in_the_folder_for_temporary_files) {
  const PrivateFolder folder = PrivateFolder::make("test").or_raise();
  const Variable temporary("TMPDIR", folder.path().c_str());
  (void)compile({kAnswer});
  (void)compile({"not C++"});
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(CppCompiler, a_full_disk_and_a_killed_compiler_are_no_errors_of_the_text) {
  const Script full("g++",
                    "case \"$*\" in *-###*) exec /usr/bin/g++ \"$@\";; esac\n"
                    "echo 'fatal error: error writing to kernel.s: No space left on device' >&2\n"
                    "exit 1\n");
  const Script killed("g++",
                      "case \"$*\" in *-###*) exec /usr/bin/g++ \"$@\";; esac\n"
                      "kill -9 $$\n");
  for (const Script* script : {&full, &killed}) {
    const Variable cxx("CXX", (script->folder() + "/g++").c_str());
    const auto outcome = CppCompiler::find().or_raise()->compile({kAnswer}, {});
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.failure().code(), ErrorCode::environment);
    EXPECT_THAT(outcome.failure().message(), HasSubstr("could not finish"));
  }
}

// A compiler that fails with this word.
std::string says_of(const std::string& said, ErrorCode code, const std::string& text = kAnswer) {
  const Script script("g++",
                      "case \"$*\" in *-###*) exec /usr/bin/g++ \"$@\";; esac\n"
                      "cat >&2 <<'END'\n" +
                          said + "\nEND\nexit 1\n");
  const Variable cxx("CXX", (script.folder() + "/g++").c_str());
  const auto outcome = CppCompiler::find().or_raise()->compile({text}, {});
  if (outcome) {
    EXPECT_EQ(code, ErrorCode::usage) << "taken for an error of the text: " << said;
    return outcome.value().messages;
  }
  EXPECT_EQ(outcome.failure().code(), code) << said;
  return outcome.failure().message();
}

TEST(CppCompiler, one_that_is_not_whole_is_no_error_of_the_text) {
  for (const char* said :
       {"g++: fatal error: cannot execute 'as': execvp: No such file or directory\n"
        "compilation terminated.",
        "/usr/bin/ld: cannot find -lm: No such file or directory\n"
        "collect2: error: ld returned 1 exit status",
        "collect2: fatal error: cannot find 'ld'",
        "g++: error: unrecognized command-line option '-fnonsense'"}) {
    EXPECT_THAT(says_of(said, ErrorCode::environment),
                AllOf(HasSubstr("apt-get install g++"), HasSubstr("PATH"), HasSubstr(said)));
  }
  for (const char* said :
       {"g++: fatal error: Killed signal terminated program cc1plus",
        "{standard input}: Fatal error: can't write 8 bytes: No space left on device\n"
        "k.metal:3:1: fatal error: error writing to -: Broken pipe",
        "k.metal:3:1: warning: overflow\ncc1plus: out of memory allocating 65536 bytes"}) {
    EXPECT_THAT(says_of(said, ErrorCode::environment),
                AllOf(HasSubstr("make room"), HasSubstr(said)));
  }
}

TEST(CppCompiler, words_of_the_text_are_not_taken_for_its_own) {
  for (const char* words : {"Read-only file system", "cannot execute", "cannot find it"}) {
    const CppOutcome outcome = compile({std::string("#error \"") + words + "\"\n"});
    EXPECT_THAT(outcome.object, IsEmpty());
    EXPECT_THAT(outcome.messages, HasSubstr(words));
    (void)says_of(std::string("k.metal:3:2: error: static assertion failed: a\n") + words,
                  ErrorCode::usage);
  }
}

TEST(CppCompiler, a_killed_one_that_said_nothing_is_not_quoted) {
  const Script killed("g++",
                      "case \"$*\" in *-###*) exec /usr/bin/g++ \"$@\";; esac\n"
                      "kill -9 $$\n");
  const Variable cxx("CXX", (killed.folder() + "/g++").c_str());
  const auto outcome = CppCompiler::find().or_raise()->compile({kAnswer}, {});
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.failure().message(), AllOf(HasSubstr("signal 9"), Not(HasSubstr("It said"))));
}

TEST(CppCompiler, cxx_may_be_a_relative_path) {
  const Script script("g++", "exec /usr/bin/g++ \"$@\"\n");
  const Variable cxx("CXX", (std::filesystem::relative(script.folder()).string() + "/g++").c_str());
  EXPECT_FALSE(compile({kAnswer}).object.empty());
}

TEST(CppCompiler, an_application_that_ignores_its_children_can_compile) {
  struct sigaction ignore {};
  struct sigaction before {};
  ignore.sa_handler = SIG_IGN;
  ASSERT_EQ(sigaction(SIGCHLD, &ignore, &before), 0);
  const CppOutcome right = compile({kAnswer});
  const CppOutcome wrong = compile({"not C++"});
  sigaction(SIGCHLD, &before, nullptr);
  EXPECT_FALSE(right.object.empty());
  EXPECT_TRUE(wrong.object.empty());
  EXPECT_NE(wrong.messages, "");
}

// A g++ that gives its compiler these words behind -march=native: when it is asked what it is, and
// when it compiles.
Script native_with(const std::string& asked, const std::string& compiling) {
  return Script("g++", "words='" + compiling + "'\ncase \"$*\" in *-###*) words='" + asked +
                           "';; esac\nfor a; do shift; set -- \"$@\" \"$a\"\n"
                           "case $a in -march=native) set -- \"$@\" $words;; esac; done\n"
                           "exec /usr/bin/g++ \"$@\"\n");
}

// What g++ 12 makes of it for processors with arithmetic of halves, its assembler refuses.
constexpr const char* kLargerHalf =
    "extern \"C\" void f(const _Float16* __restrict__ x, _Float16* __restrict__ y, unsigned n) {\n"
    "  for (unsigned i = 0; i < n; ++i) y[i] = x[i] > _Float16(0) ? x[i] : _Float16(0);\n}\n";

TEST(CppCompiler, instructions_that_its_assembler_does_not_take_are_not_used) {
  const Script script = native_with("-mavx512fp16", "-mavx512fp16");
  const Variable cxx("CXX", (script.folder() + "/g++").c_str());
  const CppOutcome outcome = compile({kLargerHalf});
  EXPECT_FALSE(outcome.object.empty()) << outcome.messages;
}

TEST(CppCompiler, instructions_that_its_assembler_takes_are_used) {
  const Script script = native_with("-mavx512fp16", "-mno-avx512fp16");
  const Variable cxx("CXX", (script.folder() + "/g++").c_str());
  EXPECT_THAT(CppCompiler::find().or_raise()->version({}), Not(HasSubstr("-mno-avx512fp16")));
}

// Runs it in a child without the descriptors; whether it came back true.
bool without_descriptors(std::initializer_list<int> closed, const std::function<bool()>& action) {
  const pid_t child = fork();
  if (child == 0) {
    for (const int fd : closed) close(fd);
    _exit(action() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status == 0;
}

TEST(CppCompiler, closed_standard_descriptors_do_not_matter) {
  ASSERT_TRUE(CppCompiler::find());
  for (const auto closed : {std::initializer_list<int>{0}, {0, 1}, {1}, {2}, {1, 2}, {0, 1, 2}}) {
    EXPECT_TRUE(without_descriptors(closed,
                                    [] {
                                      const CppOutcome right = compile({kAnswer});
                                      const CppOutcome wrong = compile({"not C++"});
                                      return !right.object.empty() &&
                                             SharedObject::load("k", right.object).ok() &&
                                             wrong.object.empty() &&
                                             wrong.messages.find("error") != std::string::npos;
                                    }))
        << "without " << ::testing::PrintToString(std::vector<int>(closed));
    // Nothing of ours takes their place, where what others print would go into it.
    EXPECT_TRUE(without_descriptors(closed, [&] {
      const PrivateFolder folder = PrivateFolder::make("test").or_raise();
      return !folder.write("a", std::string_view("b")) &&
             std::ranges::all_of(closed, [](int fd) { return fcntl(fd, F_GETFD) < 0; });
    }));
  }
}

// A compiler that makes a file in its folder, tells that it is at work, and works while this lives.
struct Busy {
  holdfast::testing::TemporaryFolder folder;
  std::filesystem::path temporary = folder.path() / "tmp";
  std::filesystem::path at_work = folder.path() / "at_work";
  std::filesystem::path number = folder.path() / "number";
  std::filesystem::path until_closed = folder.path() / "until_closed";
  hal::UniqueFd open_end;
  Script script{"g++",
                "case \"$*\" in *-###*) exec /usr/bin/g++ \"$@\";; esac\n"
                "echo $$ > in_the_middle; echo $$ > '" +
                    number.native() + "'; echo > '" + at_work.native() + "'\nexec cat '" +
                    until_closed.native() + "'\n"};
  Variable tmpdir{"TMPDIR", temporary.c_str()};
  Variable cxx{"CXX", (script.folder() + "/g++").c_str()};

  Busy() {
    std::filesystem::create_directory(temporary);
    EXPECT_EQ(mkfifo(at_work.c_str(), 0600), 0);
    EXPECT_EQ(mkfifo(until_closed.c_str(), 0600), 0);
    open_end = hal::UniqueFd(open(until_closed.c_str(), O_RDWR | O_CLOEXEC));
  }
  // In a child, which ends as `end` says while one of its threads compiles. Its status.
  int run(const std::function<void()>& end) const {
    const pid_t child = fork();
    if (child == 0) {
      // A thread that tries again when its compiler was killed.
      sync::Thread compiling("compiling", [] {
        const auto compiler = CppCompiler::find().or_raise();
        for (int i = 0; i < 2; ++i) (void)compiler->compile({kAnswer}, {});
      });
      std::ifstream(at_work).get();
      end();
      _exit(99);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
  }
  // Whether the compiler ends, though nobody lets it.
  bool compiler_ends() const {
    pid_t compiler = 0;
    std::ifstream(number) >> compiler;
    const hal::UniqueFd ended(static_cast<int>(syscall(SYS_pidfd_open, compiler, 0)));
    pollfd event{ended.get(), POLLIN, 0};
    constexpr int kForEver = 20'000;
    return compiler > 0 && (!ended || poll(&event, 1, kForEver) == 1);
  }
  size_t left() const {
    const auto all = std::filesystem::directory_iterator(temporary);
    return static_cast<size_t>(std::distance(begin(all), end(all)));
  }
};

TEST(CppCompiler, exit_while_it_runs_leaves_no_folder) {
  if (has_sanitizer())
    GTEST_SKIP() << "at exit a sanitizer reports what the thread that compiles still has";
  const Busy busy;
  const int status = busy.run([] { std::exit(7); });  // NOLINT(concurrency-mt-unsafe): see there
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_TRUE(busy.compiler_ends());
  EXPECT_EQ(busy.left(), 0U);
}

TEST(CppCompiler, what_a_killed_process_leaves_is_removed_by_the_next) {
  if (has_thread_sanitizer())
    GTEST_SKIP() << "a forked child with threads is beyond ThreadSanitizer";
  const Busy busy;
  const int status = busy.run([] {
    std::signal(SIGINT, SIG_DFL);  // NOLINT(cert-err33-c): programs in the background ignore it
    raise(SIGINT);
  });
  EXPECT_EQ(WTERMSIG(status), SIGINT);
  {
    const PrivateFolder next = PrivateFolder::make("test").or_raise();
    EXPECT_EQ(busy.left(), 1U) << "the folder in use, and no other";
    // Another process keeps to itself.
    EXPECT_TRUE(without_descriptors({}, [&] {
      const Variable other("TMPDIR", (busy.temporary.native() + "/").c_str());
      const PrivateFolder third = PrivateFolder::make("test").or_raise();
      return std::filesystem::exists(next.path());
    }));
  }
  EXPECT_EQ(busy.left(), 0U);
}

}  // namespace
}  // namespace holdfast::kernel
