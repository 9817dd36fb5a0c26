// Ranks that have died and have no successor yet (PROTOCOL P6).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/rank_set.h"
#include "base/status.h"

namespace rankcast::mesh {

/// Used under the mesh's mutex. Costs one load where no rank is lost.
class LostRanks {
 public:
  LostRanks(int world_size, bool can_restart)
      : ends_(static_cast<std::size_t>(world_size)), can_restart_(can_restart) {}

  /// `end` says how: "was killed by signal 9 (Killed); ...".
  void add(int rank, std::string end) {
    ranks_.insert(rank);
    ends_[static_cast<std::size_t>(rank)] = std::move(end);
  }
  void remove(int rank) noexcept { ranks_.erase(rank); }

  bool contains(int rank) const noexcept { return ranks_.contains(rank); }
  const std::string& end(int rank) const noexcept { return ends_[static_cast<std::size_t>(rank)]; }

  /// `rank_lost` naming the first of `used` that is lost, if one is.
  base::Status check(const base::RankSet& used) const;

 private:
  base::RankSet ranks_;
  std::vector<std::string> ends_;  // by rank
  bool can_restart_;
};

}  // namespace rankcast::mesh
