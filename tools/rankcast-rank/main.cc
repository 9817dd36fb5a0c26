// The program of a rank on link "process": started by a mesh, never by hand.
#include "link/process_rank.h"
#include "link/process_words.h"
#include "rank/hello.h"

int main() {
  return rankcast::link::run_process_rank(rankcast::link::kRankSocket,
                                          &rankcast::rank::rank_main_of);
}
