#include "holdfast/stats.h"

#include <fmt/format.h>

namespace holdfast {

std::string to_string(const Stats& stats) {
  const kernel::CacheStats& k = stats.kernels;
  return fmt::format(
      "nodes: {} recorded, {} failed; {} inputs donated, {} hidden copies, {} early submits\n"
      "compiled functions: {} traced, {} replays, {} calls not compiled\n"
      "kernels: {} variants ({}), {} compiles, {} disk hits, {} hits, {} evictions\n{}",
      stats.nodes_recorded, stats.nodes_failed, stats.donated, stats.hidden_copies,
      stats.early_submits, stats.functions_traced, stats.replays, stats.calls_not_compiled,
      k.variants, to_string(k.bytes), k.compiles, k.disk_hits, k.hits, k.evictions,
      runtime::to_string(stats.runtime));
}

}  // namespace holdfast
