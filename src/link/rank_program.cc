#include "link/rank_program.h"

#include <array>
#include <filesystem>
#include <system_error>

#include "base/own_file.h"

namespace rankcast::link {

base::Result<std::string> find_rank_program(const std::string& named) {
  constexpr std::array kFolders{"", "..", "../bin", "../libexec", "../../bin"};
  if (named.empty()) {
    return base::find_own_file(kFolders, "rankcast-rank", "the program of process ranks was",
                               "RANKCAST_RANK_BINARY");
  }
  std::error_code error;
  if (std::filesystem::is_regular_file(named, error)) return named;
  return base::unexpected_failure(ErrorCode::unsupported,
                                  "the program of process ranks is not where "
                                  "MeshOptions::rank_binary says: no file \"{}\"",
                                  named);
}

}  // namespace rankcast::link
