#include "holdfast/kernel/cache/disk_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>

#include "holdfast/base/log.h"
#include "holdfast/base/sync/thread.h"
#include "holdfast/kernel/cache/stub_target_test.h"
#include "holdfast/testing/variable.h"

namespace holdfast::kernel {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Variable;

ContentKey key_of(std::string text) { return {stub_job(std::move(text)), "stub 1"}; }

Code code_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string content(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void put(const fs::path& file, std::string_view text) {
  std::ofstream(file, std::ios::binary) << text;
}

unsigned mode_of(const fs::path& path) {
  return static_cast<unsigned>(fs::status(path).permissions());
}

void age(const fs::path& path, int hours) {
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(hours));
}

class DiskCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "holdfast-disk-cache-XXXXXX").native();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    above = name;
    folder = above / "kernels";
    before_ = logging::set_sink([this](const logging::Message& message) {
      if (message.warning) warnings.emplace_back(message.text);
    });
  }
  void TearDown() override {
    logging::set_sink(before_);
    fs::remove_all(above);
  }

  // All files below the folder.
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    if (!fs::exists(folder)) return found;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (!entry.is_directory()) found.push_back(entry.path());
    }
    return found;
  }
  // Whether what was there is not used, is told once, and is replaced by the next write.
  void expect_ignored_and_replaced(const ContentKey& key) {
    warnings.clear();
    DiskCache cache(folder);
    EXPECT_FALSE(cache.read(key));
    EXPECT_FALSE(cache.read(key));
    EXPECT_EQ(cache.stats().damaged, 2U);
    EXPECT_EQ(cache.stats().misses, 2U);
    EXPECT_THAT(warnings, ElementsAre(HasSubstr(cache.path_of(key).native())));
    cache.write(key, code_of("good again"));
    EXPECT_EQ(cache.read(key), code_of("good again"));
    EXPECT_EQ(warnings.size(), 1U);
  }

  fs::path above;
  fs::path folder;
  std::vector<std::string> warnings;

 private:
  logging::Sink before_;
};

TEST_F(DiskCacheTest, what_was_written_is_read_by_it_and_by_another) {
  const ContentKey key = key_of("a");
  {
    DiskCache cache(folder);
    EXPECT_TRUE(cache.on());
    EXPECT_FALSE(cache.read(key));
    cache.write(key, code_of("the code"));
    EXPECT_EQ(cache.read(key), code_of("the code"));
    EXPECT_EQ(cache.stats().hits, 1U);
    EXPECT_EQ(cache.stats().misses, 1U);
    EXPECT_EQ(cache.stats().writes, 1U);
  }
  DiskCache another(folder);
  EXPECT_EQ(another.read(key), code_of("the code"));
  EXPECT_FALSE(another.read(key_of("b")));
  EXPECT_THAT(warnings, IsEmpty());
}

TEST_F(DiskCacheTest, entries_are_named_by_their_digest_and_private) {
  DiskCache cache(folder);
  const ContentKey key = key_of("a");
  cache.write(key, code_of("x"));
  const std::string digits = to_string(key.digest());
  const fs::path path = folder / digits.substr(0, 2) / digits.substr(2);
  EXPECT_EQ(cache.path_of(key), path);
  EXPECT_THAT(files(), ElementsAre(path));
  EXPECT_EQ(mode_of(path), 0600U);
  EXPECT_EQ(mode_of(path.parent_path()), 0700U);
  EXPECT_EQ(mode_of(folder), 0700U);
}

TEST_F(DiskCacheTest, clear_removes_every_entry_and_nothing_else) {
  DiskCache cache(folder);
  for (const char* text : {"a", "b", "c"}) cache.write(key_of(text), code_of(text));
  put(folder / "README", "mine");
  cache.clear();
  EXPECT_THAT(files(), ElementsAre(folder / "README"));
  EXPECT_FALSE(cache.read(key_of("a")));
  cache.write(key_of("a"), code_of("a"));
  EXPECT_TRUE(cache.read(key_of("a")));
}

// Damage

TEST_F(DiskCacheTest, a_file_cut_anywhere_is_ignored_and_replaced) {
  const ContentKey key = key_of("a");
  fs::path path;
  {
    DiskCache cache(folder);
    cache.write(key, code_of("code"));
    path = cache.path_of(key);
  }
  const std::string whole = content(path);
  for (size_t length = 0; length < whole.size(); ++length) {
    SCOPED_TRACE(length);
    put(path, whole.substr(0, length));
    expect_ignored_and_replaced(key);
  }
}

TEST_F(DiskCacheTest, a_flipped_bit_anywhere_is_ignored_and_replaced) {
  const ContentKey key = key_of("a");
  fs::path path;
  {
    DiskCache cache(folder);
    cache.write(key, code_of("code"));
    path = cache.path_of(key);
  }
  const std::string whole = content(path);
  for (size_t i = 0; i < whole.size(); ++i) {
    SCOPED_TRACE(i);
    std::string flipped = whole;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 << (i % 8)));
    put(path, flipped);
    expect_ignored_and_replaced(key);
  }
}

TEST_F(DiskCacheTest, a_foreign_file_is_ignored_and_replaced) {
  const ContentKey key = key_of("a");
  const fs::path path = DiskCache(folder).path_of(key);
  DiskCache(folder).write(key, code_of("x"));
  put(path, std::string(5000, 'x'));
  expect_ignored_and_replaced(key);
}

TEST_F(DiskCacheTest, the_file_of_another_key_under_this_name_is_ignored_and_replaced) {
  DiskCache cache(folder);
  cache.write(key_of("b"), code_of("code of b"));
  cache.write(key_of("a"), code_of("code of a"));
  fs::copy_file(cache.path_of(key_of("b")), cache.path_of(key_of("a")),
                fs::copy_options::overwrite_existing);
  expect_ignored_and_replaced(key_of("a"));
}

TEST_F(DiskCacheTest, many_damaged_files_are_counted_and_told_once) {
  DiskCache cache(folder);
  for (const char* text : {"a", "b", "c"}) {
    cache.write(key_of(text), code_of(text));
    put(cache.path_of(key_of(text)), "damaged");
    EXPECT_FALSE(cache.read(key_of(text)));
  }
  EXPECT_EQ(cache.stats().damaged, 3U);
  EXPECT_EQ(warnings.size(), 1U);
}

// Trust

TEST_F(DiskCacheTest, a_folder_that_others_can_write_to_is_not_used) {
  const ContentKey key = key_of("a");
  for (const unsigned mode : {0770U, 0702U, 0777U, 01777U}) {
    {
      DiskCache cache(folder);
      cache.write(key, code_of("planted"));
    }
    fs::permissions(folder, fs::perms(mode));
    warnings.clear();
    DiskCache cache(folder);
    EXPECT_TRUE(cache.on()) << "nobody has looked yet";
    EXPECT_FALSE(cache.read(key));
    EXPECT_FALSE(cache.on());
    cache.write(key_of("b"), code_of("b"));
    EXPECT_FALSE(fs::exists(cache.path_of(key_of("b"))));
    EXPECT_THAT(warnings, ElementsAre(AllOf(HasSubstr(folder.native()), HasSubstr("others"),
                                            HasSubstr("HOLDFAST_CACHE_DIR"))));
    fs::permissions(folder, fs::perms(0700));
    EXPECT_FALSE(cache.read(key)) << "it stays off";
  }
}

TEST_F(DiskCacheTest, a_folder_that_others_can_write_to_is_not_written_to_either) {
  fs::create_directories(folder);
  fs::permissions(folder, fs::perms(0777));
  DiskCache cache(folder);
  cache.write(key_of("a"), code_of("a"));
  EXPECT_FALSE(cache.on());
  EXPECT_THAT(files(), IsEmpty());
  EXPECT_EQ(warnings.size(), 1U);
}

TEST_F(DiskCacheTest, a_folder_that_others_can_read_is_fine) {
  fs::create_directories(folder);
  fs::permissions(folder, fs::perms(0755));
  DiskCache cache(folder);
  cache.write(key_of("a"), code_of("a"));
  EXPECT_TRUE(cache.read(key_of("a")));
}

TEST_F(DiskCacheTest, a_folder_of_entries_that_others_can_write_to_is_not_used) {
  const ContentKey key = key_of("a");
  DiskCache cache(folder);
  cache.write(key, code_of("a"));
  fs::permissions(cache.path_of(key).parent_path(), fs::perms(0777));
  EXPECT_FALSE(cache.read(key));
  EXPECT_FALSE(cache.on());
  EXPECT_THAT(warnings, ElementsAre(HasSubstr(cache.path_of(key).parent_path().native())));
}

TEST_F(DiskCacheTest, a_file_that_others_can_write_to_is_ignored_and_replaced) {
  const ContentKey key = key_of("a");
  DiskCache cache(folder);
  cache.write(key, code_of("planted"));
  fs::permissions(cache.path_of(key), fs::perms(0660));
  expect_ignored_and_replaced(key);
  EXPECT_EQ(mode_of(cache.path_of(key)), 0600U);
}

TEST_F(DiskCacheTest, a_link_is_not_followed) {
  const ContentKey key = key_of("a");
  DiskCache cache(folder);
  cache.write(key, code_of("planted"));
  fs::rename(cache.path_of(key), above / "elsewhere");
  fs::create_symlink(above / "elsewhere", cache.path_of(key));
  expect_ignored_and_replaced(key);
  EXPECT_FALSE(fs::is_symlink(cache.path_of(key)));
}

TEST_F(DiskCacheTest, what_belongs_to_another_user_is_not_used) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  const ContentKey key = key_of("a");
  DiskCache cache(folder);
  cache.write(key, code_of("planted"));
  ASSERT_EQ(::chown(cache.path_of(key).c_str(), 4321, 4321), 0);
  expect_ignored_and_replaced(key);
  warnings.clear();
  ASSERT_EQ(::chown(folder.c_str(), 4321, 4321), 0);
  DiskCache another(folder);
  EXPECT_FALSE(another.read(key));
  EXPECT_FALSE(another.on());
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("4321")));
}

// Off, and disks that do not work

TEST_F(DiskCacheTest, off_means_that_nothing_is_read_or_written) {
  const Variable where("HOLDFAST_CACHE_DIR", above.c_str());
  {
    const Variable on("HOLDFAST_DISK_CACHE", nullptr);
    DiskCache::from_environment()->write(key_of("stale"), code_of("stale"));
  }
  ASSERT_THAT(files(), ElementsAre(DiskCache(folder).path_of(key_of("stale"))));
  const Variable off("HOLDFAST_DISK_CACHE", "0");
  const auto cache = DiskCache::from_environment();
  EXPECT_FALSE(cache->on());
  EXPECT_FALSE(cache->read(key_of("stale")));
  cache->write(key_of("new"), code_of("new"));
  cache->clear();
  EXPECT_THAT(files(), ElementsAre(DiskCache(folder).path_of(key_of("stale"))));
  EXPECT_EQ(cache->stats().misses, 0U);
  EXPECT_THAT(warnings, IsEmpty());
}

TEST_F(DiskCacheTest, the_environment_says_where_and_how_much) {
  const Variable on("HOLDFAST_DISK_CACHE", "1");
  const Variable where("HOLDFAST_CACHE_DIR", above.c_str());
  const Variable limit("HOLDFAST_CACHE_LIMIT", "4KiB");
  const auto cache = DiskCache::from_environment();
  EXPECT_EQ(cache->path_of(key_of("a")), DiskCache(folder).path_of(key_of("a")));
  cache->write(key_of("a"), Code(8192));
  EXPECT_THAT(files(), IsEmpty()) << "larger than the limit";
  const Variable nonsense("HOLDFAST_CACHE_LIMIT", "much");
  EXPECT_THROW(DiskCache::from_environment(), EnvironmentError);
}

TEST_F(DiskCacheTest, a_folder_that_cannot_be_made_degrades_to_no_cache_with_one_warning) {
  put(above / "file", "text");
  DiskCache cache(above / "file" / "kernels");
  for (const char* text : {"a", "b", "c"}) {
    EXPECT_FALSE(cache.read(key_of(text)));
    cache.write(key_of(text), code_of(text));
  }
  EXPECT_EQ(cache.stats().failed_writes, 3U);
  EXPECT_THAT(warnings, ElementsAre(AllOf(HasSubstr("memory only"), HasSubstr("file/kernels"))));
}

TEST_F(DiskCacheTest, a_full_disk_degrades_to_no_cache_with_one_warning) {
  DiskCache cache(folder);
  cache.write(key_of("old"), code_of("old"));
  // A limit on the size of files stands for a full disk.
  const auto signal_before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit whole{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &whole), 0);
  const rlimit small{4096, whole.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  cache.write(key_of("a"), Code(100'000));
  cache.write(key_of("b"), Code(100'000));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &whole), 0);
  std::signal(SIGXFSZ, signal_before);
  EXPECT_EQ(cache.stats().failed_writes, 2U);
  EXPECT_EQ(warnings.size(), 1U);
  EXPECT_THAT(files(), ElementsAre(cache.path_of(key_of("old")))) << "and leaves no litter";
  cache.write(key_of("a"), Code(100'000));
  EXPECT_TRUE(cache.read(key_of("a"))) << "once there is room again";
}

TEST_F(DiskCacheTest, a_read_only_disk_is_read_and_degrades_with_one_warning) {
  DiskCache cache(folder);
  cache.write(key_of("old"), code_of("old"));
  fs::permissions(folder, fs::perms(0500));
  // Root writes everywhere, unless it is nobody for a while.
  const bool root = ::geteuid() == 0;
  if (root) {
    for (const fs::path& path : {above, folder, cache.path_of(key_of("old")).parent_path(),
                                 cache.path_of(key_of("old"))}) {
      ASSERT_EQ(::chown(path.c_str(), 4321, 4321), 0);
    }
    ASSERT_EQ(::seteuid(4321), 0);
  }
  // Of another first digit than the one that has a folder.
  std::vector<ContentKey> others;
  for (int i = 0; others.size() < 2; ++i) {
    ContentKey key = key_of(std::to_string(i));
    if (cache.path_of(key).parent_path() != cache.path_of(key_of("old")).parent_path()) {
      others.push_back(std::move(key));
    }
  }
  EXPECT_EQ(cache.read(key_of("old")), code_of("old"));
  for (const ContentKey& key : others) {
    cache.write(key, code_of("new"));
    EXPECT_FALSE(cache.read(key));
  }
  if (root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  EXPECT_EQ(cache.stats().failed_writes, 2U);
  EXPECT_EQ(warnings.size(), 1U);
  fs::permissions(folder, fs::perms(0700));
}

TEST_F(DiskCacheTest, a_folder_that_is_deleted_under_it_is_made_again) {
  DiskCache cache(folder);
  cache.write(key_of("a"), code_of("a"));
  fs::remove_all(folder);
  EXPECT_FALSE(cache.read(key_of("a")));
  cache.write(key_of("a"), code_of("a"));
  EXPECT_TRUE(cache.read(key_of("a")));
  EXPECT_THAT(warnings, IsEmpty());
}

// Size

TEST_F(DiskCacheTest, over_the_cap_the_oldest_by_access_go) {
  const std::vector<std::string> names{"a", "b", "c", "d"};
  DiskCache cache(folder, 100_KiB);
  for (const std::string& name : names) cache.write(key_of(name), Code(20 << 10));
  const auto there = [&](const std::string& name) {
    return fs::exists(cache.path_of(key_of(name)));
  };
  // Written in this order, a first; but a is read again.
  for (int i = 0; i < 4; ++i) age(cache.path_of(key_of(names[static_cast<size_t>(i)])), 10 - i);
  EXPECT_TRUE(cache.read(key_of("a")));
  cache.write(key_of("e"), Code(30 << 10));
  EXPECT_TRUE(there("a"));
  EXPECT_FALSE(there("b"));
  EXPECT_TRUE(there("d"));
  EXPECT_TRUE(there("e"));
  EXPECT_EQ(cache.stats().evictions, there("c") ? 1U : 2U);
}

TEST_F(DiskCacheTest, what_others_wrote_before_counts) {
  {
    DiskCache before(folder);
    for (const char* name : {"a", "b", "c"}) {
      before.write(key_of(name), Code(40 << 10));
      age(before.path_of(key_of(name)), 2);
    }
  }
  DiskCache cache(folder, 100_KiB);
  cache.write(key_of("d"), Code(10 << 10));
  uint64_t size = 0;
  for (const fs::path& file : files()) size += fs::file_size(file);
  EXPECT_LE(size, (100_KiB).value);
  EXPECT_TRUE(cache.read(key_of("d")));
}

TEST_F(DiskCacheTest, it_never_holds_more_than_the_cap) {
  DiskCache cache(folder, 64_KiB);
  for (int i = 0; i < 200; ++i) {
    cache.write(key_of(std::to_string(i)), Code(static_cast<size_t>(500 + 37 * i)));
    uint64_t size = 0;
    for (const fs::path& file : files()) size += fs::file_size(file);
    ASSERT_LE(size, (64_KiB).value) << i;
    ASSERT_TRUE(cache.read(key_of(std::to_string(i)))) << "the newest is kept";
  }
}

TEST_F(DiskCacheTest, writing_the_same_again_counts_once) {
  DiskCache cache(folder, 64_KiB);
  for (int i = 0; i < 50; ++i) cache.write(key_of("a"), Code(20 << 10));
  cache.write(key_of("b"), Code(20 << 10));
  EXPECT_EQ(cache.stats().evictions, 0U);
  EXPECT_TRUE(cache.read(key_of("a")));
}

TEST_F(DiskCacheTest, what_killed_processes_left_behind_goes_after_a_while) {
  {
    DiskCache cache(folder);
    cache.write(key_of("a"), code_of("a"));
  }
  const fs::path below = DiskCache(folder).path_of(key_of("a")).parent_path();
  put(below / ".holdfast-0123456789abcdef", "half a file");
  put(below / ".holdfast-fedcba9876543210", "half a file");
  age(below / ".holdfast-0123456789abcdef", 3);
  DiskCache cache(folder);
  cache.write(key_of("b"), code_of("b"));
  EXPECT_FALSE(fs::exists(below / ".holdfast-0123456789abcdef"));
  EXPECT_TRUE(fs::exists(below / ".holdfast-fedcba9876543210")) << "somebody may be writing it";
}

// Many at once

TEST_F(DiskCacheTest, processes_that_write_and_read_the_same_keys_see_whole_files_or_none) {
  constexpr int kProcesses = 4;
  constexpr int kRounds = 100;
  const auto code = [](int key) {
    return Code(static_cast<size_t>(20'000 + 1000 * key), static_cast<std::byte>(key));
  };
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      DiskCache cache(folder, 60_KiB);  // less than all of them: they evict each other's
      int wrong = 0;
      for (int i = 0; i < kRounds; ++i) {
        const int which = (i + process) % 4;
        const ContentKey key = key_of(std::to_string(which));
        const auto found = cache.read(key);
        if (found && *found != code(which)) ++wrong;
        if (!found) cache.write(key, code(which));
      }
      const DiskCacheStats stats = cache.stats();
      ::_exit(wrong + static_cast<int>(stats.damaged + stats.failed_writes) > 0 ? 1 : 0);
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
  }
  for (const fs::path& file : files()) {
    EXPECT_FALSE(file.filename().native().starts_with(".")) << file << " is litter";
  }
}

TEST_F(DiskCacheTest, processes_that_write_one_key_at_once_leave_one_file) {
  constexpr int kProcesses = 4;
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      DiskCache cache(folder);
      for (int i = 0; i < 50; ++i) cache.write(key_of("a"), code_of("the same for all"));
      ::_exit(cache.stats().failed_writes > 0 ? 1 : 0);
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
  }
  DiskCache cache(folder);
  EXPECT_THAT(files(), ElementsAre(cache.path_of(key_of("a"))));
  EXPECT_EQ(cache.read(key_of("a")), code_of("the same for all"));
}

TEST_F(DiskCacheTest, threads_share_one_cache) {
  DiskCache cache(folder, 200_KiB);
  std::atomic<int> wrong = 0;
  {
    std::vector<sync::Thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back("user", [&, t] {
        for (int i = 0; i < 60; ++i) {
          const int which = (i * (t + 1)) % 20;
          const Code code(20'000, static_cast<std::byte>(which));
          const auto found = cache.read(key_of(std::to_string(which)));
          if (found && *found != code) ++wrong;
          if (!found) cache.write(key_of(std::to_string(which)), code);
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(cache.stats().damaged, 0U);
  EXPECT_EQ(cache.stats().hits + cache.stats().misses, 240U);
}

}  // namespace
}  // namespace holdfast::kernel
