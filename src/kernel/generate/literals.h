#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::kernel {

// `0.5` is a float in Metal and a double in C++. Generated text has `0.5f` in its place.

// The macros of a text that make other tokens or strings of their arguments.
std::set<std::string, std::less<>> pasting_macros(std::string_view text);

// Where in the text the floating literals end that have no suffix, in order. Of preprocessor lines
// those of #define alone. What is given to a pasting macro, or stands in one, is left as it is.
std::vector<size_t> unsuffixed_literals(std::string_view text,
                                        const std::set<std::string, std::less<>>& pasting = {});

// The text with an `f` at each of these places.
std::string with_suffixes(std::string_view text, const std::vector<size_t>& places);

}  // namespace holdfast::kernel
