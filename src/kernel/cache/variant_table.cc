#include "holdfast/kernel/cache/variant_table.h"

#include <algorithm>

#include "holdfast/base/ablation.h"

namespace holdfast::kernel {
namespace {

// A kernel object that is made anew for each call has a spelling of its own each time.
constexpr size_t kSpellingsPerVariant = 4;

Bytes size_of(const SignatureKey& signature) { return {signature.bytes().size()}; }

}  // namespace

uint64_t VariantTable::hash_of(KernelId kernel, const SignatureKey& signature) noexcept {
  return signature.hash() ^ (kernel.value * 0x9E37'79B9'7F4A'7C15U);
}

bool VariantTable::LookupEqual::operator()(const Lookup& a, const Lookup& b) const noexcept {
  if (a.hash != b.hash) return false;
  if (ablated(Ablation::hash_without_equality)) return true;
  return a.kernel == b.kernel && *a.signature == *b.signature;
}

bool VariantTable::ContentEqual::operator()(const ContentKey* a,
                                            const ContentKey* b) const noexcept {
  if (a->digest() != b->digest()) return false;
  if (ablated(Ablation::hash_without_equality)) return true;
  return *a == *b;
}

const Variant* VariantTable::find(KernelId kernel, const SignatureKey& signature, uint64_t hash) {
  const auto found = by_signature_.find({kernel, &signature, hash});
  if (found == by_signature_.end()) return nullptr;
  const Spellings::iterator spelling = found->second;
  if (spelling != recent_.begin()) recent_.splice(recent_.begin(), recent_, spelling);
  return spelling->entry->variant.get();
}

const Variant* VariantTable::find(const ContentKey& content, KernelId kernel,
                                  const SignatureKey& signature, uint64_t hash) {
  const auto found = by_content_.find(&content);
  if (found == by_content_.end()) return nullptr;
  // The entry has a spelling already, so that none goes.
  Dropped none;
  add_spelling(*found->second, kernel, signature, hash, none);
  return found->second->variant.get();
}

void VariantTable::insert(const ContentKey& content, const std::string& name,
                          Ref<const Variant> variant, KernelId kernel,
                          const SignatureKey& signature, uint64_t hash, Dropped& dropped) {
  auto found = by_content_.find(&content);
  if (found == by_content_.end()) {
    auto entry = std::make_unique<Entry>(Entry{content, name, {}, 0});
    const ContentKey* const key = &entry->content;
    found = by_content_.emplace(key, std::move(entry)).first;
  }
  Entry& entry = *found->second;
  if (entry.variant) {
    bytes_ -= entry.variant->bytes;
    dropped.push_back(std::move(entry.variant));
  }
  bytes_ += variant->bytes;
  entry.variant = std::move(variant);
  add_spelling(entry, kernel, signature, hash, dropped);
}

void VariantTable::add_spelling(Entry& entry, KernelId kernel, const SignatureKey& signature,
                                uint64_t hash, Dropped& dropped) {
  if (const auto known = by_signature_.find({kernel, &signature, hash});
      known != by_signature_.end()) {
    if (known->second->entry == &entry) {
      recent_.splice(recent_.begin(), recent_, known->second);
      return;
    }
    // The same call means something else now, such as under a new version of the compiler.
    remove(known->second, dropped);
  }
  recent_.push_front({kernel, signature, hash, &entry});
  const Spelling& spelling = recent_.front();
  by_signature_.emplace(Lookup{kernel, &spelling.signature, hash}, recent_.begin());
  ++entry.spellings;
  bytes_ += size_of(signature);
}

void VariantTable::remove(Spellings::iterator spelling, Dropped& dropped) {
  Entry& entry = *spelling->entry;
  bytes_ -= size_of(spelling->signature);
  by_signature_.erase({spelling->kernel, &spelling->signature, spelling->hash});
  recent_.erase(spelling);
  if (--entry.spellings > 0) return;
  bytes_ -= entry.variant->bytes;
  dropped.push_back(std::move(entry.variant));
  by_content_.erase(by_content_.find(&entry.content));
}

uint64_t VariantTable::trim(const CacheLimits& limits, Dropped& dropped) {
  const size_t before = variants();
  const auto over = [&] {
    return variants() > limits.variants || (bytes_ > limits.bytes && variants() > 1) ||
           recent_.size() / kSpellingsPerVariant > limits.variants;
  };
  while (!recent_.empty() && over()) remove(std::prev(recent_.end()), dropped);
  return before - variants();
}

void VariantTable::clear(Dropped& dropped) {
  while (!recent_.empty()) remove(std::prev(recent_.end()), dropped);
}

#ifdef HOLDFAST_ABLATIONS
void VariantTable::drop_others_of(const std::string& name, const ContentKey& content,
                                  Dropped& dropped) {
  for (auto spelling = recent_.begin(); spelling != recent_.end();) {
    const auto next = std::next(spelling);
    if (spelling->entry->name == name && !(spelling->entry->content == content)) {
      remove(spelling, dropped);
    }
    spelling = next;
  }
}
#endif

}  // namespace holdfast::kernel
