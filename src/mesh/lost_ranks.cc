#include "mesh/lost_ranks.h"

namespace rankcast::mesh {

base::Status LostRanks::check(const base::RankSet& used) const {
  if (ranks_.empty()) [[likely]] {
    return {};
  }
  base::Status status;
  used.for_each([&](int rank) {
    if (!status.ok() || !ranks_.contains(rank)) return;
    status = base::failure(ErrorCode::rank_lost, "rank {} {}; {}, or leave it out", rank, end(rank),
                           can_restart_ ? "restart it by Mesh::restart_rank"
                                        : "close the mesh and open it again")
                 .with_rank(rank);
  });
  return status;
}

}  // namespace rankcast::mesh
