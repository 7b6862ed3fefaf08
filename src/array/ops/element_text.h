#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// Text that kernels of elementwise work share: one operation's, and those of several at once.
namespace holdfast::array {

// How a thread reaches its element of an operand.
enum class Access : uint8_t {
  number,   // a param
  taken,    // it is the output's memory: what the thread replaces
  flat,     // at the thread's own position
  one,      // the same element for all threads
  row,      // in the thread's row of the last axis, at its place there
  held,     // the same element for the whole row
  strided,  // in the thread's row, with a stride
  turned,   // the same where neighbours along the last axis but one lie closer than those
};

// What expressions may use; see Expression. Products and sums of the kernel stay two operations, so
// that work of several nodes in one kernel comes to the same bits as in several.
extern const std::string_view kElementHelpers;
// For threads in rows: row_of() finds where a row begins.
extern const std::string_view kRowHelper;
// For threads with blocks of BLOCK elements; after kPackText and kConvertText.
extern const std::string_view kBlockLoads;

// Where in x's memory the thread's row begins, for a thread at the uint3 `at`.
std::string row_of(std::string_view x);

// x's element, as it lies in memory, for a thread with one element: number i of all, at `at` in its
// rows. Not for operands that are taken.
std::string element_at(Access access, std::string_view x);

// x's elements for a thread with VECTOR of them, each converted to `type`; variables begin with
// `own`. Packs are read only where all operands that have them are aligned.
struct PackReads {
  std::string begins;      // of the row
  std::string is_aligned;  // empty: always
  std::string pack;        // of those from `first` on
  std::string of_pack;     // element j of it
  std::string one;         // element k of the row
  bool strided = false;
};
PackReads pack_reads(Access access, bool in_rows, std::string_view x, std::string_view own,
                     std::string_view type);

// The same for a thread with blocks, of which `n` elements are there, from column `first` on, which
// is element `begin` of all.
struct BlockReads {
  std::string load;   // of a line
  std::string value;  // element j of it
};
BlockReads block_reads(Access access, std::string_view x, std::string_view own,
                       std::string_view type);

}  // namespace holdfast::array
