#include "holdfast/base/checked_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "holdfast/base/sync/thread.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

class CheckedFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "holdfast-checked-file-XXXXXX").native();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder = name;
    path = folder / "entry";
  }
  void TearDown() override { fs::remove_all(folder); }

  static std::string content(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void put(const fs::path& file, std::string_view text) {
    std::ofstream(file, std::ios::binary) << text;
  }
  FileState state_of(std::string_view key) const { return read_checked_file(path, key).state; }
  // Everything in the folder, at any depth.
  size_t entries() const {
    const fs::recursive_directory_iterator all(folder);
    return static_cast<size_t>(std::distance(fs::begin(all), fs::end(all)));
  }

  fs::path folder;
  fs::path path;
};

unsigned mode_of(const fs::path& path) {
  return static_cast<unsigned>(fs::status(path).permissions());
}

TEST_F(CheckedFile, what_was_written_under_a_key_is_read_under_it) {
  const auto written = bytes_of("the payload");
  ASSERT_FALSE(write_checked_file(path, "key", written));
  const CheckedBytes read = read_checked_file(path, "key");
  EXPECT_EQ(read.state, FileState::good);
  EXPECT_EQ(read.bytes, written);
}

TEST_F(CheckedFile, empty_payloads_and_empty_keys_are_kept_too) {
  ASSERT_FALSE(write_checked_file(path, "", {}));
  const CheckedBytes read = read_checked_file(path, "");
  EXPECT_EQ(read.state, FileState::good);
  EXPECT_TRUE(read.bytes.empty());
}

TEST_F(CheckedFile, a_large_payload_is_kept) {
  std::vector<std::byte> written(3'000'001);
  unsigned i = 0;
  for (std::byte& b : written) b = static_cast<std::byte>(i++ * 31 >> 3);
  ASSERT_FALSE(write_checked_file(path, "key", written));
  EXPECT_EQ(read_checked_file(path, "key").bytes, written);
}

TEST_F(CheckedFile, a_second_write_replaces_the_first) {
  ASSERT_FALSE(write_checked_file(path, "key", bytes_of("a longer first one")));
  ASSERT_FALSE(write_checked_file(path, "key", bytes_of("second")));
  EXPECT_EQ(read_checked_file(path, "key").bytes, bytes_of("second"));
  EXPECT_EQ(entries(), 1U);
}

TEST_F(CheckedFile, a_file_that_is_not_there_is_missing) {
  EXPECT_EQ(state_of("key"), FileState::missing);
  EXPECT_EQ(read_checked_file(path / "below" / "it", "key").state, FileState::missing);
}

TEST_F(CheckedFile, what_is_no_file_is_missing) {
  EXPECT_EQ(read_checked_file(folder, "key").state, FileState::missing);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(state_of("key"), FileState::missing) << "and reading it does not wait";
}

TEST_F(CheckedFile, another_key_is_noticed) {
  ASSERT_FALSE(write_checked_file(path, "key", bytes_of("payload")));
  for (const std::string_view other : {"kez", "ke", "keyp", ""}) {
    const CheckedBytes read = read_checked_file(path, other);
    EXPECT_EQ(read.state, FileState::damaged) << other;
    EXPECT_TRUE(read.bytes.empty());
  }
}

TEST_F(CheckedFile, a_file_cut_at_any_length_is_noticed) {
  ASSERT_FALSE(write_checked_file(path, "key", bytes_of("payload")));
  const std::string whole = content(path);
  for (size_t length = 0; length < whole.size(); ++length) {
    put(path, whole.substr(0, length));
    EXPECT_EQ(state_of("key"), FileState::damaged) << "cut at " << length;
  }
}

TEST_F(CheckedFile, bytes_after_the_end_are_noticed) {
  ASSERT_FALSE(write_checked_file(path, "key", bytes_of("payload")));
  put(path, content(path) + '\0');
  EXPECT_EQ(state_of("key"), FileState::damaged);
}

TEST_F(CheckedFile, a_flipped_bit_is_noticed) {
  ASSERT_FALSE(write_checked_file(path, "key", bytes_of("payload")));
  const std::string whole = content(path);
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string flipped = whole;
    flipped.at(bit / 8) = static_cast<char>(flipped.at(bit / 8) ^ (1 << (bit % 8)));
    put(path, flipped);
    EXPECT_EQ(state_of("key"), FileState::damaged) << "bit " << bit;
  }
  put(path, whole);
  EXPECT_EQ(state_of("key"), FileState::good);
}

TEST_F(CheckedFile, a_foreign_file_is_noticed) {
  put(path, std::string(200, 'x'));
  EXPECT_EQ(state_of("key"), FileState::damaged);
  put(path, "");
  EXPECT_EQ(state_of("key"), FileState::damaged);
}

TEST_F(CheckedFile, a_length_that_no_memory_could_hold_is_only_a_damaged_file) {
  ASSERT_FALSE(write_checked_file(path, "key", bytes_of("payload")));
  std::string forged = content(path);
  for (const size_t field : {8U, 16U}) {
    std::string huge = forged;
    huge.replace(field, 8, std::string(8, '\xff'));
    put(path, huge);
    EXPECT_EQ(state_of("key"), FileState::damaged);
  }
}

TEST_F(CheckedFile, files_and_new_folders_are_private_to_the_user) {
  path = folder / "a" / "b" / "entry";
  ASSERT_FALSE(write_checked_file(path, "key", bytes_of("payload")));
  EXPECT_EQ(mode_of(path), 0600U);
  EXPECT_EQ(mode_of(folder / "a" / "b"), 0700U);
  EXPECT_EQ(mode_of(folder / "a"), 0700U);
  EXPECT_EQ(state_of("key"), FileState::good);
}

TEST_F(CheckedFile, folders_that_are_there_keep_their_mode) {
  fs::create_directory(folder / "a");
  fs::permissions(folder / "a", fs::perms(0755));
  ASSERT_FALSE(write_checked_file(folder / "a" / "entry", "key", {}));
  EXPECT_EQ(mode_of(folder / "a"), 0755U);
}

TEST_F(CheckedFile, a_file_in_an_open_folder_is_written_there_wherever_the_folder_went) {
  fs::create_directory(folder / "a");
  const int opened = ::open((folder / "a").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_GE(opened, 0);
  fs::rename(folder / "a", folder / "b");
  fs::create_directory(folder / "a");
  EXPECT_FALSE(write_checked_file(opened, "entry", folder / "a" / "entry", "key", bytes_of("x")));
  EXPECT_EQ(read_checked_file(folder / "b" / "entry", "key").bytes, bytes_of("x"));
  EXPECT_EQ(mode_of(folder / "b" / "entry"), 0600U);
  EXPECT_TRUE(fs::is_empty(folder / "a"));
  const int file = ::openat(opened, "entry", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(read_checked_file(file, "key").bytes, bytes_of("x"));
  ::close(file);
  ::close(opened);
}

TEST_F(CheckedFile, a_folder_is_made_with_those_above_it_or_the_failure_names_it) {
  EXPECT_FALSE(make_private_folder(folder / "a" / "b"));
  EXPECT_EQ(mode_of(folder / "a" / "b"), 0700U);
  EXPECT_FALSE(make_private_folder(folder / "a" / "b"));
  put(path, "text");
  EXPECT_THAT(make_private_folder(path / "c").message(), HasSubstr((path / "c").native()));
}

// A parent that is a file refuses root as well, which a mode does not.
TEST_F(CheckedFile, a_folder_that_cannot_be_made_fails_and_names_the_file) {
  put(folder / "file", "text");
  const fs::path below = folder / "file" / "deeper" / "entry";
  const Failure failure = write_checked_file(below, "key", bytes_of("payload"));
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure.code(), ErrorCode::environment);
  EXPECT_THAT(failure.message(), HasSubstr(below.native()));
  EXPECT_THAT(failure.message(), HasSubstr("HOLDFAST_CACHE_DIR"));
  EXPECT_EQ(entries(), 1U);
  EXPECT_EQ(content(folder / "file"), "text");
}

TEST_F(CheckedFile, a_name_that_is_taken_by_a_folder_fails_and_leaves_no_litter) {
  fs::create_directory(path);
  put(path / "inside", "text");
  EXPECT_TRUE(write_checked_file(path, "key", bytes_of("payload")));
  EXPECT_EQ(entries(), 2U);
}

TEST_F(CheckedFile, a_write_that_runs_out_of_room_leaves_the_old_file_and_no_litter) {
  ASSERT_FALSE(write_checked_file(path, "key", bytes_of("old")));
  // A limit on the size of files stands for a full disk.
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit whole{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &whole), 0);
  const rlimit small{4096, whole.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Failure failure = write_checked_file(path, "key", std::vector<std::byte>(100'000));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &whole), 0);
  std::signal(SIGXFSZ, before);

  ASSERT_TRUE(failure);
  EXPECT_EQ(failure.code(), ErrorCode::environment);
  EXPECT_EQ(read_checked_file(path, "key").bytes, bytes_of("old"));
  EXPECT_EQ(entries(), 1U);
}

TEST_F(CheckedFile, concurrent_writers_leave_one_whole_file_at_any_time) {
  constexpr int kWriters = 4;
  constexpr int kWrites = 60;
  const auto payload = [](int writer) {
    return std::vector<std::byte>(5'000 + 1'000 * static_cast<size_t>(writer),
                                  static_cast<std::byte>(writer));
  };
  ASSERT_FALSE(write_checked_file(path, "key", payload(0)));
  std::atomic<int> failed = 0;
  std::atomic<int> writing = kWriters;
  int torn = 0;
  {
    std::vector<sync::Thread> writers;
    for (int writer = 0; writer < kWriters; ++writer) {
      writers.emplace_back("writer", [&, writer] {
        const auto mine = payload(writer);
        for (int i = 0; i < kWrites; ++i) {
          if (write_checked_file(path, "key", mine)) ++failed;
        }
        --writing;
      });
    }
    while (writing > 0) {
      const CheckedBytes read = read_checked_file(path, "key");
      const bool whole = read.state == FileState::good && !read.bytes.empty() &&
                         read.bytes == payload(std::to_integer<int>(read.bytes.front()));
      torn += whole ? 0 : 1;
    }
  }
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(entries(), 1U);
}

// Sets (or, with nullptr, unsets) a variable until it goes out of scope.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;  // NOLINT(concurrency-mt-unsafe)
    set(value);
  }
  ~Variable() { set(before_ ? before_->c_str() : nullptr); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  void set(const char* value) {
    if (value != nullptr) {
      ::setenv(name_, value, 1);  // NOLINT(concurrency-mt-unsafe)
    } else {
      ::unsetenv(name_);  // NOLINT(concurrency-mt-unsafe)
    }
  }
  const char* name_;
  std::optional<std::string> before_;
};

TEST(CacheFolder, is_the_first_that_the_environment_names) {
  const Variable on("HOLDFAST_DISK_CACHE", nullptr);
  const Variable home("HOME", "/home/someone");
  const Variable no_xdg("XDG_CACHE_HOME", nullptr);
  const Variable no_own("HOLDFAST_CACHE_DIR", nullptr);
  EXPECT_EQ(cache_folder(), "/home/someone/.cache/holdfast");
  const Variable xdg("XDG_CACHE_HOME", "/xdg");
  EXPECT_EQ(cache_folder(), "/xdg/holdfast");
  const Variable own("HOLDFAST_CACHE_DIR", "/own/place");
  EXPECT_EQ(cache_folder(), "/own/place");
}

TEST(CacheFolder, is_empty_where_the_disk_cache_is_off_or_nothing_is_known) {
  const Variable own("HOLDFAST_CACHE_DIR", "/own/place");
  {
    const Variable off("HOLDFAST_DISK_CACHE", "0");
    EXPECT_TRUE(cache_folder().empty());
  }
  const Variable on("HOLDFAST_DISK_CACHE", "1");
  EXPECT_EQ(cache_folder(), "/own/place");
  const Variable no_own("HOLDFAST_CACHE_DIR", nullptr);
  const Variable no_home("HOME", nullptr);
  const Variable relative("XDG_CACHE_HOME", "not/absolute");
  EXPECT_TRUE(cache_folder().empty());
}

}  // namespace
}  // namespace holdfast
