#include "holdfast/kernel/targets/cuda/nvrtc_log.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

namespace holdfast::kernel {

namespace {

constexpr auto kNone = std::string_view::npos;

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == kNone) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::optional<uint32_t> number_at(std::string_view text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return {};
  return value;
}

// The first line of a message: FILE(LINE): [catastrophic ]error[ #NUMBER-D]: WORDS.
struct Head {
  std::string_view file;
  uint32_t line = 0;
  bool error = false;
  std::string_view words;
};

std::optional<Head> head_of(std::string_view line) {
  for (const std::string_view kind :
       {"): error", "): catastrophic error", "): warning", "): remark", "): note"}) {
    const size_t at = line.find(kind);
    if (at == kNone) continue;
    const size_t open = line.substr(0, at).rfind('(');
    const size_t colon = line.find(": ", at + kind.size());
    if (open == kNone || colon == kNone) continue;
    const auto number = number_at(line.substr(open + 1));
    if (!number) continue;
    return Head{.file = line.substr(0, open),
                .line = *number,
                .error = kind.ends_with("error"),
                .words = line.substr(colon + 2)};
  }
  return {};
}

bool is_caret(std::string_view line) { return trimmed(line) == "^"; }

class Reader {
 public:
  explicit Reader(std::span<const SourceText> sources) : sources_(sources) {}

  std::vector<Diagnostic> read(std::string_view log) {
    std::vector<std::string_view> lines;
    while (!log.empty()) {
      const size_t end = std::min(log.find('\n'), log.size());
      lines.push_back(log.substr(0, end));
      log.remove_prefix(std::min(end + 1, log.size()));
    }
    for (size_t i = 0; i < lines.size();) {
      const auto head = head_of(lines[i]);
      if (!head) {
        if (const size_t at = lines[i].find("error   : "); at != kNone) {
          // ptxas, which knows of no lines.
          add({.message = std::string(trimmed(lines[i].substr(at + 10)))});
        }
        ++i;
        continue;
      }
      size_t end = i + 1;
      while (end < lines.size() && !lines[end].empty() && !head_of(lines[end])) ++end;
      if (head->error) {
        add(diagnostic(*head, std::span(lines).subspan(i + 1, end - i - 1)));
      }
      i = end;
    }
    return std::move(found_);
  }

 private:
  const SourceText* source(std::string_view file) const {
    const auto it = std::ranges::find(sources_, file, &SourceText::file);
    return it == sources_.end() ? nullptr : &*it;
  }

  // `lines` follow the head: more words, then the source line and a caret, then how it came to
  // that.
  Diagnostic diagnostic(const Head& head, std::span<const std::string_view> lines) const {
    Diagnostic result{.file = std::string(head.file),
                      .line = head.line,
                      .message = std::string(trimmed(head.words))};
    const auto caret = std::ranges::find_if(lines, is_caret);
    const size_t words =
        caret == lines.end()
            ? 0
            : static_cast<size_t>(std::max<ptrdiff_t>(caret - lines.begin() - 1, 0));
    for (const std::string_view line : lines.first(words)) {
      result.message += "; ";
      result.message += trimmed(line);
    }
    if (const SourceText* text = source(head.file)) {
      result.source_line = line_of(text->text, head.line);
      // The line is printed after two blanks.
      if (caret != lines.end()) {
        result.column =
            author_column(*text, head.line, static_cast<uint32_t>(caret->find('^') - 1));
      }
      if (result.column > result.source_line.size() + 1) result.column = 0;
      return result;
    }
    result.file.clear();
    result.line = 0;
    place_by_context(head, lines, result);
    return result;
  }

  // ... at line 4 of user.metal
  void place_by_context(const Head& head, std::span<const std::string_view> lines,
                        Diagnostic& result) const {
    constexpr std::string_view kAt = "at line ";
    for (const std::string_view line : lines) {
      if (line.find("declared ") != kNone) continue;
      const size_t at = line.rfind(kAt);
      if (at == kNone) continue;
      const std::string_view rest = line.substr(at + kAt.size());
      const auto number = number_at(rest);
      const size_t of = rest.find(" of ");
      std::string_view file = of == kNone ? head.file : trimmed(rest.substr(of + 4));
      if (file.size() > 1 && file.front() == '"') file = file.substr(1, file.size() - 2);
      const SourceText* const text = source(file);
      if (!number || text == nullptr) continue;
      result.file = text->file;
      result.line = *number;
      result.source_line = line_of(text->text, *number);
      return;
    }
  }

  void add(Diagnostic diagnostic) {
    const bool known = std::ranges::any_of(found_, [&](const Diagnostic& d) {
      return diagnostic.line != 0 && d.line == diagnostic.line && d.file == diagnostic.file;
    });
    if (!known) found_.push_back(std::move(diagnostic));
  }

  std::span<const SourceText> sources_;
  std::vector<Diagnostic> found_;
};

}  // namespace

std::vector<Diagnostic> read_nvrtc_log(std::string_view log, std::span<const SourceText> sources) {
  return Reader(sources).read(log);
}

}  // namespace holdfast::kernel
