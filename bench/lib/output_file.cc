#include "bench/lib/output_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "rankcast/error.h"

namespace rankcast::bench {

namespace {

[[noreturn]] void refuse(const std::string& path, int error) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} cannot be written: {}", path, std::strerror(error)));
}

// What a new file of this process may be read by: mkstemp makes one for its owner alone.
mode_t new_file_mode() {
  const mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

}  // namespace

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
  if (is_standard_output()) {
    fd_ = STDOUT_FILENO;
    return;
  }
  if (path_.empty()) refuse("\"\"", ENOENT);
  struct stat status{};
  const bool exists = stat(path_.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) refuse(path_, EISDIR);
  if (exists && access(path_.c_str(), W_OK) != 0) refuse(path_, errno);
  if (exists && !S_ISREG(status.st_mode)) {
    fd_ = open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd_ < 0) refuse(path_, errno);
    return;
  }
  // Through a symbolic link its target is replaced, not the link.
  std::error_code ignored;
  const std::filesystem::path target = std::filesystem::weakly_canonical(path_, ignored);
  if (!target.empty()) path_ = target.string();
  temporary_ = path_ + ".XXXXXX";
  fd_ = mkostemp(temporary_.data(), O_CLOEXEC);
  if (fd_ < 0) {
    const int error = errno;
    temporary_.clear();
    refuse(path_, error);
  }
  fchmod(fd_, exists ? status.st_mode & 0777 : new_file_mode());
}

OutputFile::~OutputFile() {
  if (fd_ >= 0 && !is_standard_output()) close(fd_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void OutputFile::write(std::string_view text) {
  const auto fail = [this] {
    throw Error(
        ErrorCode::unsupported,
        fmt::format("{} cannot be written: {}", is_standard_output() ? "standard output" : path_,
                    std::strerror(errno)));
  };
  while (!text.empty()) {
    const ssize_t written = ::write(fd_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail();
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  if (temporary_.empty()) return;
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail();
  temporary_.clear();
}

}  // namespace rankcast::bench
