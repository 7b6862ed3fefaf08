#pragma once

#include <list>
#include <unordered_map>
#include <vector>

#include "holdfast/kernel/cache/variant_cache.h"

namespace holdfast::kernel {

// What a VariantCache remembers: variants by content, and the spellings (kernel object, signature)
// under which each was asked for. Not thread-safe; nothing in it compiles, waits or destroys: what
// it lets go is given to the caller, who drops it without the lock.
//
// One list, most recently used spelling first, bounds both. Taking the oldest spellings away until
// one variant has none left finds the least recently used variant. A spelling that is gone costs
// one making of text when it comes again.
class VariantTable {
 public:
  using Dropped = std::vector<Ref<const Variant>>;

  static uint64_t hash_of(KernelId kernel, const SignatureKey& signature) noexcept;

  // Null where it is not there; else it is the most recently used one.
  const Variant* find(KernelId kernel, const SignatureKey& signature, uint64_t hash);
  // The variant of that content, which then has this spelling, too. Null where there is none.
  const Variant* find(const ContentKey& content, KernelId kernel, const SignatureKey& signature,
                      uint64_t hash);
  // Replaces what was there under the content. `name` is the kernel's.
  void insert(const ContentKey& content, const std::string& name, Ref<const Variant> variant,
              KernelId kernel, const SignatureKey& signature, uint64_t hash, Dropped& dropped);

  // Returns how many variants went.
  uint64_t trim(const CacheLimits& limits, Dropped& dropped);
  void clear(Dropped& dropped);
#ifdef HOLDFAST_ABLATIONS
  // See Ablation::kernel_key_clear_on_mismatch.
  void drop_others_of(const std::string& name, const ContentKey& content, Dropped& dropped);
#endif

  size_t variants() const noexcept { return by_content_.size(); }
  Bytes bytes() const noexcept { return bytes_; }

 private:
  struct Entry {
    ContentKey content;
    std::string name;
    Ref<const Variant> variant;
    size_t spellings = 0;
  };
  struct Spelling {
    KernelId kernel;
    SignatureKey signature;
    uint64_t hash = 0;
    Entry* entry = nullptr;
  };
  using Spellings = std::list<Spelling>;
  struct Lookup {
    KernelId kernel;
    const SignatureKey* signature = nullptr;
    uint64_t hash = 0;
  };
  struct LookupHash {
    size_t operator()(const Lookup& l) const noexcept { return l.hash; }
  };
  struct LookupEqual {
    bool operator()(const Lookup& a, const Lookup& b) const noexcept;
  };
  struct ContentHash {
    size_t operator()(const ContentKey* key) const noexcept { return key->digest().words[0]; }
  };
  struct ContentEqual {
    bool operator()(const ContentKey* a, const ContentKey* b) const noexcept;
  };

  void add_spelling(Entry& entry, KernelId kernel, const SignatureKey& signature, uint64_t hash,
                    Dropped& dropped);
  void remove(Spellings::iterator spelling, Dropped& dropped);

  Spellings recent_;  // most recently used first
  std::unordered_map<Lookup, Spellings::iterator, LookupHash, LookupEqual> by_signature_;
  std::unordered_map<const ContentKey*, std::unique_ptr<Entry>, ContentHash, ContentEqual>
      by_content_;
  Bytes bytes_{};  // of all variants and spellings

 public:
  // For whatever else is kept by content.
  template <typename T>
  using ByContent = std::unordered_map<const ContentKey*, T, ContentHash, ContentEqual>;
};

}  // namespace holdfast::kernel
