// The program of a rank on link "process": started by a mesh, never by hand.
#include <cstdio>

#include "link/process_messages.h"
#include "link/process_rank.h"
#include "rank/hello.h"

int main() {
  // To the host it is a pipe; a person who reads along sees whole lines as they come.
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  return rankcast::link::run_process_rank(rankcast::link::kRankSocket,
                                          &rankcast::rank::rank_main_of);
}
