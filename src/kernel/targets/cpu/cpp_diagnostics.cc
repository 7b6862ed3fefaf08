#include "holdfast/kernel/targets/cpu/cpp_diagnostics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "holdfast/kernel/compilers/words.h"
#include "holdfast/kernel/generate/tokens.h"

namespace holdfast::kernel {

namespace {

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// "FILE:LINE:COLUMN:" at the start of a line, where FILE is the author's.
std::optional<Diagnostic> take_place(std::string_view& line, std::span<const SourceText> sources) {
  for (const SourceText& source : sources) {
    std::string_view rest = line;
    Diagnostic place;
    if (!take(rest, source.file) || !take(rest, ":") || !take_number(rest, place.line)) continue;
    if (!take(rest, ":")) continue;
    if (take_number(rest, place.column) && !take(rest, ":")) continue;
    place.column = author_column(source, place.line, place.column);
    place.file = source.file;
    place.source_line = line_of(source.text, place.line);
    line = rest;
    return place;
  }
  return {};
}

// In words of the author's: nobody there knows of frames.
std::string plain_words(std::string_view words) {
  if (!has(words, "frame-larger-than")) return std::string(words);
  std::vector<uint32_t> numbers;
  for (std::string_view rest = words; !rest.empty();) {
    uint32_t number = 0;
    if (take_number(rest, number)) {
      numbers.push_back(number);
    } else {
      rest.remove_prefix(1);
    }
  }
  if (numbers.size() < 2) return std::string(words);
  return fmt::format(
      "the variables of a thread take {} bytes of its stack, and threads that meet at barriers "
      "have {} each; make arrays smaller, or put them into threadgroup memory or a buffer",
      numbers[0], numbers[1]);
}

// What the assembler says of a line of its own text: "{standard input}:57: Error: WORDS".
std::optional<std::string> words_of_assembler(std::string_view line) {
  constexpr std::string_view kMark = ": Error: ";
  const size_t at = line.find(kMark);
  if (at == std::string_view::npos) return {};
  const size_t number = line.find_last_not_of("0123456789", at - 1);
  if (at == 0 || number == at - 1 || number == std::string_view::npos || line[number] != ':') {
    return {};
  }
  std::string words(line.substr(at + kMark.size()));
  std::ranges::replace(words, '`', '\'');
  return fmt::format(
      "the assembler does not take what the compiler made: {}. Where the text has no asm, they do "
      "not fit together: update them, or name another compiler in CXX",
      words);
}

enum class Kind { none, error, note };

// What a line says, and its words. Those of an error in a file that is not the author's follow the
// name of that file.
Kind kind_of(std::string_view line, bool placed, std::string_view& words) {
  static constexpr std::array<std::string_view, 3> kErrors{
      "internal compiler error: ", "fatal error: ", "error: "};
  for (const std::string_view mark : kErrors) {
    const size_t at = line.find(mark);
    if (at == std::string_view::npos || (placed && at != line.find_first_not_of(' '))) continue;
    words = line.substr(mark == kErrors[0] ? at : at + mark.size());
    return Kind::error;
  }
  if (const size_t at = line.find("note: ");
      at != std::string_view::npos && (!placed || at == line.find_first_not_of(' '))) {
    words = line.substr(at + 6);
    return Kind::note;
  }
  return Kind::none;
}

// Words that lead from generated text to the author's line.
bool leads_to_author(std::string_view words) {
  static constexpr std::array<std::string_view, 7> kLeads{
      "required from",    "required by",    "in expansion of macro",
      "in instantiation", "requested here", "in 'constexpr' expansion of",
      "to match this"};
  return std::ranges::any_of(kLeads, [&](std::string_view lead) { return has(words, lead); });
}

// The first bracket that has no partner.
std::optional<Diagnostic> lonely_bracket(const SourceText& source) {
  std::vector<Token> open;
  const auto at = [&](const Token& token, std::string_view what) {
    const std::string_view before = std::string_view(source.text).substr(0, token.offset);
    Diagnostic result;
    result.file = source.file;
    result.line = static_cast<uint32_t>(1 + std::ranges::count(before, '\n'));
    // Without a newline before it, npos + 1 is the start.
    result.column = static_cast<uint32_t>(token.offset - (before.rfind('\n') + 1) + 1);
    result.message = fmt::format("this '{}' {}", token.text, what);
    result.source_line = line_of(source.text, result.line);
    return result;
  };
  for (const Token& token : tokenize(source.text)) {
    // What conditions leave out may be half of a pair.
    if (token.in_directive) return {};
    if (token.kind != TokenKind::punctuation) continue;
    if (token.text == "(" || token.text == "[" || token.text == "{") {
      open.push_back(token);
    } else if (token.text == ")" || token.text == "]" || token.text == "}") {
      const std::string_view partner = token.text == ")" ? "(" : token.text == "]" ? "[" : "{";
      if (open.empty() || open.back().text != partner) return at(token, "closes nothing");
      open.pop_back();
    }
  }
  if (open.empty()) return {};
  return at(open.back(), "is never closed");
}

class LogReader {
 public:
  explicit LogReader(std::span<const SourceText> sources) : sources_(sources) {}

  std::vector<Diagnostic> read(std::string_view log) {
    while (!log.empty()) read_line(take_line(log));
    flush();
    return std::move(result_);
  }

 private:
  void read_line(std::string_view line) {
    if (const size_t at = line.find("undefined reference to "); at != std::string_view::npos) {
      std::string words(line.substr(at));
      std::ranges::replace(words, '`', '\'');
      flush();
      if (result_.empty() || result_.back().message != words) result_.push_back({.message = words});
      return;
    }
    std::string_view rest = line;
    std::optional<Diagnostic> place = take_place(rest, sources_);
    if (std::optional<std::string> words = words_of_assembler(line); words && !place) {
      flush();
      if (result_.empty() || result_.back().message != *words) {
        result_.push_back({.message = std::move(*words)});
      }
      return;
    }
    std::string_view words;
    switch (kind_of(rest, place.has_value(), words)) {
      case Kind::error:
        if (line.starts_with("collect2: ") || has(words, "linker command failed")) return;
        flush();
        begin_error(std::move(place), trim(words));
        break;
      case Kind::note: add_note(std::move(place), trim(words)); break;
      case Kind::none:
        // The innermost use of a template comes first, the author's call last; either tells where.
        if (place && leads_to_author(rest)) context_ = std::move(place);
        break;
    }
  }

  void begin_error(std::optional<Diagnostic> place, std::string_view words) {
    pending_ = place ? std::move(*place) : context_.value_or(Diagnostic{});
    placed_ = pending_->line != 0;
    pending_->message = plain_words(words);
    context_.reset();
  }

  void add_note(std::optional<Diagnostic> place, std::string_view words) {
    if (!place || !pending_) return;
    if (!placed_) {
      if (!leads_to_author(words)) return;
      place->message = std::move(pending_->message);
      pending_ = std::move(place);
      placed_ = true;
      return;
    }
    if (leads_to_author(words) || (place->line == pending_->line && place->file == pending_->file))
      return;
    place->message = fmt::format("note: {}", words);
    notes_.push_back(std::move(*place));
  }

  void flush() {
    if (!pending_) return;
    const bool known = placed_ && std::ranges::any_of(result_, [&](const Diagnostic& d) {
                         return d.line == pending_->line && d.file == pending_->file &&
                                !d.message.starts_with("note: ");
                       });
    if (!known) {
      result_.push_back(std::move(*pending_));
      for (Diagnostic& note : notes_) result_.push_back(std::move(note));
    }
    pending_.reset();
    notes_.clear();
  }

  std::span<const SourceText> sources_;
  std::vector<Diagnostic> result_;
  std::optional<Diagnostic> context_;  // of the error that follows
  std::optional<Diagnostic> pending_;  // the error whose notes are being read
  bool placed_ = false;                // whether it has a line of the author's
  std::vector<Diagnostic> notes_;
};

}  // namespace

std::vector<Diagnostic> read_cpp_log(std::string_view log, std::span<const SourceText> sources) {
  std::vector<Diagnostic> result = LogReader(sources).read(log);
  // Errors without a place are usually consequences of those with one.
  if (std::ranges::any_of(result, [](const Diagnostic& d) { return d.line != 0; })) {
    std::erase_if(result, [](const Diagnostic& d) { return d.line == 0; });
    return result;
  }
  if (result.empty()) return result;
  for (const SourceText& source : sources) {
    if (std::optional<Diagnostic> bracket = lonely_bracket(source)) return {std::move(*bracket)};
  }
  return result;
}

}  // namespace holdfast::kernel
