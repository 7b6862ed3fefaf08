#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "holdfast/base/env.h"
#include "holdfast/kernel/generate/generate.h"

namespace holdfast::kernel {

// The generated text of a kernel, without the preamble, is golden/NAME.txt, except for the entry
// point's name, which is a digest. HOLDFAST_UPDATE_GOLDEN=1 writes the file.
inline void expect_golden(const std::string& name, const GeneratedKernel& kernel) {
  const auto path = std::filesystem::path(__FILE__).parent_path() / "golden" / (name + ".txt");
  std::string text = kernel.text;
  const size_t at = text.find(kernel.entry_point);
  ASSERT_NE(at, text.npos);
  text.replace(at, kernel.entry_point.size(), "ENTRY");
  if (env::flag("HOLDFAST_UPDATE_GOLDEN").value_or(false)) std::ofstream(path) << text;
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  std::stringstream content;
  content << file.rdbuf();
  EXPECT_EQ(text, content.str()) << "HOLDFAST_UPDATE_GOLDEN=1 writes " << path;
}

}  // namespace holdfast::kernel
