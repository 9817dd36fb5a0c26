#include "rankcast/installation.h"

#include <unistd.h>

#include <utility>

#include "link/rank_program.h"
#include "rank/digest.h"
#include "rank/kernel_library.h"

namespace rankcast {

Installation installation() {
  Installation found;
  if (auto kernels = rank::builtin_kernel_library_path(); !kernels) {
    found.kernels_problem = std::move(kernels).error().text;
  } else {
    found.kernels = std::move(*kernels);
    if (const auto digest = rank::sha256_of_file(found.kernels)) {
      found.kernels_digest = rank::digest_text(*digest);
    } else {
      found.kernels_problem = digest.error().text;
    }
  }
  if (auto program = link::find_rank_program({}); !program) {
    found.rank_program_problem = std::move(program).error().text;
  } else {
    found.rank_program = std::move(*program);
    if (access(found.rank_program.c_str(), X_OK) != 0) {
      found.rank_program_problem = "the program of process ranks \"" + found.rank_program +
                                   "\" may not be executed; give it that permission";
    }
  }
  return found;
}

}  // namespace rankcast
