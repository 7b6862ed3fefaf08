#include "holdfast/kernel/targets/cpu/shared_object.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>

#include <filesystem>
#include <fstream>

#include "holdfast/kernel/targets/cpu/cpp_compiler.h"

namespace holdfast::kernel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// An object whose function `answer` gives the number.
std::vector<std::byte> object_of(int number) {
  const auto compiler = CppCompiler::find().or_raise();
  const CppOutcome outcome =
      compiler
          ->compile({.text = fmt::format("static int count; extern \"C\" "
                                         "__attribute__((visibility(\"default\"))) int answer() "
                                         "{{ ++count; return {} + 0 * count; }}",
                                         number)},
                    {})
          .or_raise();
  EXPECT_FALSE(outcome.object.empty()) << outcome.messages;
  return outcome.object;
}

int answer_of(const SharedObject& object) {
  return reinterpret_cast<int (*)()>(object.find("answer"))();
}

// Whether an object that is in the process has code at the address.
bool is_mapped(const void* address) {
  std::ifstream maps("/proc/self/maps");
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) == 2 &&  // NOLINT(cert-err34-c)
        wanted >= begin && wanted < end) {
      return true;
    }
  }
  return false;
}

int loaded_objects() {
  int count = 0;
  dl_iterate_phdr(
      [](dl_phdr_info*, size_t, void* data) {
        ++*static_cast<int*>(data);
        return 0;
      },
      &count);
  return count;
}

TEST(SharedObject, it_is_unloaded_with_its_last_holder) {
  const std::vector<std::byte> bytes = object_of(5);
  const int before = loaded_objects();
  auto object = SharedObject::load("k", bytes).or_raise();
  const auto second = object;
  void* const function = object->find("answer");
  EXPECT_EQ(answer_of(*object), 5);
  EXPECT_EQ(loaded_objects(), before + 1);
  object.reset();
  EXPECT_TRUE(is_mapped(function));
  const_cast<std::shared_ptr<const SharedObject>&>(second).reset();
  EXPECT_FALSE(is_mapped(function));
  EXPECT_EQ(loaded_objects(), before);
}

TEST(SharedObject, objects_with_the_same_names_do_not_disturb_each_other) {
  const std::vector<std::byte> five = object_of(5);
  const std::vector<std::byte> six = object_of(6);
  std::vector<std::shared_ptr<const SharedObject>> objects;
  // Also many of them, in and out: numbers of descriptors, and of files, come back.
  for (int i = 0; i < 200; ++i) {
    objects.push_back(SharedObject::load("k", i % 2 == 0 ? five : six).or_raise());
    if (i % 3 == 0) objects[static_cast<size_t>(i) / 2].reset();
  }
  for (size_t i = 0; i < objects.size(); ++i) {
    if (!objects[i]) continue;
    EXPECT_EQ(answer_of(*objects[i]), i % 2 == 0 ? 5 : 6) << i;
  }
}

TEST(SharedObject, the_same_bytes_twice_are_two_objects) {
  const std::vector<std::byte> bytes = object_of(5);
  const auto a = SharedObject::load("k", bytes).or_raise();
  const auto b = SharedObject::load("k", bytes).or_raise();
  EXPECT_NE(a->find("answer"), b->find("answer"));
}

TEST(SharedObject, no_descriptor_stays_open) {
  const auto open_files = [] {
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return std::distance(begin(files), end(files));
  };
  const std::vector<std::byte> bytes = object_of(5);
  const auto before = open_files();
  const auto object = SharedObject::load("k", bytes).or_raise();
  EXPECT_EQ(open_files(), before);
}

TEST(SharedObject, what_is_not_there_is_null) {
  EXPECT_EQ(SharedObject::load("k", object_of(5)).or_raise()->find("question"), nullptr);
}

TEST(SharedObject, bytes_that_are_no_object_are_refused_with_the_kernels_name_and_no_path) {
  std::vector<std::byte> bytes = object_of(5);
  const auto refusal = [](std::span<const std::byte> content) {
    const auto loaded = SharedObject::load("bad", content);
    EXPECT_FALSE(loaded);
    return loaded ? std::string() : loaded.failure().message();
  };
  EXPECT_THAT(refusal({}), AllOf(HasSubstr("kernel 'bad'"), Not(HasSubstr("/"))));
  EXPECT_THAT(refusal(std::span(bytes).first(200)), HasSubstr("kernel 'bad'"));
  bytes[1] = std::byte{0};
  EXPECT_THAT(refusal(bytes), AllOf(HasSubstr("invalid ELF header"), Not(HasSubstr("/"))));
}

TEST(SharedObject, an_object_in_a_folder_keeps_it_as_long_as_it_lives) {
  PrivateFolder folder = PrivateFolder::make("test").or_raise();
  const std::string path = folder.path();
  auto object = SharedObject::load_in(std::move(folder), "k", object_of(7)).or_raise();
  EXPECT_EQ(answer_of(*object), 7);
  EXPECT_TRUE(std::filesystem::exists(path + "/kernel.so"));
  // Nobody else can enter.
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms::owner_all);
  object.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace holdfast::kernel
