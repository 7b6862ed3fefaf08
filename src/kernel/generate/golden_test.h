#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "holdfast/base/env.h"
#include "holdfast/kernel/generate/generate.h"

namespace holdfast::kernel {

// The text is that of the file. HOLDFAST_UPDATE_GOLDEN=1 writes it.
inline void expect_golden_text(const std::filesystem::path& path, const std::string& text) {
  if (env::flag("HOLDFAST_UPDATE_GOLDEN").value_or(false)) std::ofstream(path) << text;
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  std::stringstream content;
  content << file.rdbuf();
  EXPECT_EQ(text, content.str()) << "HOLDFAST_UPDATE_GOLDEN=1 writes " << path;
}

// The generated text of a kernel, without the preamble, is golden/NAME.txt, except for the entry
// point's name, which is a digest.
inline void expect_golden(const std::string& name, const GeneratedKernel& kernel) {
  std::string text = kernel.text;
  const size_t at = text.find(kernel.entry_point);
  ASSERT_NE(at, text.npos);
  text.replace(at, kernel.entry_point.size(), "ENTRY");
  expect_golden_text(std::filesystem::path(__FILE__).parent_path() / "golden" / (name + ".txt"),
                     text);
}

}  // namespace holdfast::kernel
