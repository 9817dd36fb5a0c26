// The program of process ranks in tests of links.
#include "link/process_messages.h"
#include "link/process_rank.h"
#include "link/ranks.h"

int main() {
  return rankcast::link::run_process_rank(rankcast::link::kRankSocket,
                                          &rankcast::link::test_rank_main);
}
