#pragma once

// Between a CPU kernel and what runs it. This text is included by both: by the host as a header, by
// generated code as the start of its preamble. So it includes nothing and uses fundamental types.
//
// The kernel is a shared object with one entry point, extern "C" void ENTRY(const hf_call*). It
// runs the threadgroups [first_group, end_group) of the grid, counted with x fastest.

// NOLINTBEGIN(readability-identifier-naming): names that no kernel text can have

struct hf_host;

struct hf_call {
  void* const* buffers;             // by binding index
  const unsigned long* bytes;       // of each
  const unsigned char* parameters;  // LaunchBlock, then the fields; 16-byte aligned
  unsigned long first_group;
  unsigned long end_group;
  hf_host* host;
  // Of the dispatch, along each axis. For native kernels, which have no LaunchBlock: there each
  // call has one threadgroup, and first_group counts them within these.
  unsigned groups[3];
};

// What a kernel asks of the host. The calls that return nothing raise: they unwind the kernel's
// frames, which hold nothing.
struct hf_host {
  // Runs item(data, t) for t in [0, threads), each on a stack of its own, so that they can meet at
  // barriers. Returns when all have returned.
  void (*run_group)(hf_host*, unsigned threads, void (*item)(void* data, unsigned thread),
                    void* data);
  // Called by an item: returns once all items of the group have called it. `line` is the author's,
  // for the message when some of them returned instead.
  void (*barrier)(hf_host*, unsigned line);
  // The same for those of a simdgroup of 32 that come to this line; the others have returned, or
  // wait at a barrier or at a later line.
  void (*simd_barrier)(hf_host*, unsigned line);
  void (*out_of_bounds)(hf_host*, const char* file, unsigned line, const char* buffer, long index,
                        unsigned long size);
  void (*assertion)(hf_host*, const char* file, unsigned line, const char* expression);
  // Of the item that runs now. Valid inside run_group.
  unsigned item;
  unsigned items;
  // 16 bytes for each lane of the current simdgroup: items write their own, call simd_barrier, and
  // read in `met` what those lanes wrote that met there; a bit of `active` for each of them.
  unsigned char (*slots)[16];
  const unsigned char (*met)[16];
  unsigned active;
};

// NOLINTEND(readability-identifier-naming)
