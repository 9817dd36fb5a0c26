#include "mesh/lost_ranks.h"

namespace rankcast::mesh {

base::Status LostRanks::check(const base::RankSet& used) const {
  if (ranks_.empty()) [[likely]] {
    return {};
  }
  base::Status status;
  used.for_each([&](int rank) {
    if (!status.ok() || !ranks_.contains(rank)) return;
    status = base::failure(ErrorCode::rank_lost,
                           "rank {} {}; restart it by Mesh::restart_rank, or leave it out", rank,
                           end(rank))
                 .with_rank(rank);
  });
  return status;
}

}  // namespace rankcast::mesh
