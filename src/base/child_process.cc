#include "base/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/fault_point.h"

namespace rankcast::base {

namespace {

constexpr int kThird = 3;
constexpr int kAboveAll = 16;  // a number that no descriptor of the child has

// Of posix_spawn, freed at the end.
class Actions {
 public:
  Actions() { posix_spawn_file_actions_init(&actions_); }
  ~Actions() { posix_spawn_file_actions_destroy(&actions_); }
  Actions(const Actions&) = delete;
  Actions& operator=(const Actions&) = delete;
  posix_spawn_file_actions_t* get() noexcept { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

class Attributes {
 public:
  Attributes() {
    posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~Attributes() { posix_spawnattr_destroy(&attributes_); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  posix_spawnattr_t* get() noexcept { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

// A copy whose number collides with none that the child is to have.
Fd moved_up(int fd) {
  return Fd(RANKCAST_FAULT_POINT("base.dup") ? (errno = EMFILE, -1)
                                             : fcntl(fd, F_DUPFD_CLOEXEC, kAboveAll));
}

}  // namespace

Result<ChildProcess> ChildProcess::spawn(const std::string& program,
                                         std::span<const std::string> arguments,
                                         const Files& files) {
  const auto cannot = [&program](int error) {
    const bool no_file = error == EMFILE || error == ENFILE;
    const bool exhausted = no_file || error == EAGAIN || error == ENOMEM;
    return unexpected_failure(exhausted ? ErrorCode::out_of_memory : ErrorCode::unsupported,
                              "cannot start \"{}\": {}{}", program, std::strerror(error),
                              no_file ? "; raise the limit of open files (ulimit -n)" : "");
  };
  Actions actions;
  posix_spawn_file_actions_addopen(actions.get(), STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  const std::array wanted{std::pair{files.standard_output, STDOUT_FILENO},
                          std::pair{files.standard_error, STDERR_FILENO},
                          std::pair{files.third, kThird}};
  std::array<Fd, wanted.size()> copies;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto [fd, number] = wanted[i];
    if (fd < 0) continue;
    copies[i] = moved_up(fd);
    // fcntl says EINVAL where the limit is below the number asked for.
    if (copies[i].empty()) return cannot(errno == EINVAL ? EMFILE : errno);
    posix_spawn_file_actions_adddup2(actions.get(), copies[i].get(), number);
  }
  posix_spawn_file_actions_addclosefrom_np(actions.get(), files.third >= 0 ? kThird + 1 : kThird);

  std::vector<char*> words{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments)
    words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  Attributes attributes;
  ChildProcess child;
  const int error = RANKCAST_FAULT_POINT("base.spawn")
                        ? EAGAIN
                        : posix_spawn(&child.pid_, program.c_str(), actions.get(), attributes.get(),
                                      words.data(), environ);
  if (error != 0) {
    child.pid_ = -1;
    return cannot(error);
  }
  auto pidfd = open_pidfd(child.pid_);
  if (!pidfd) {
    ::kill(child.pid_, SIGKILL);
    waitpid(child.pid_, nullptr, 0);
    child.pid_ = -1;
    return tl::unexpected(std::move(pidfd).error());
  }
  child.pidfd_ = std::move(*pidfd);
  return child;
}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(pidfd_, other.pidfd_);
  std::swap(reaped_, other.reaped_);
  std::swap(end_, other.end_);
  return *this;
}

ChildProcess::~ChildProcess() {
  if (pidfd_.empty() || reaped_) return;
  kill();
  wait_readable(pidfd_.get(), Deadline::never());
  reap();
}

void ChildProcess::kill() noexcept {
  if (pidfd_.empty() || reaped_) return;
  syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
}

bool ChildProcess::reap() noexcept {
  if (reaped_ || pidfd_.empty()) return false;
  siginfo_t info{};
  if (waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(pidfd_.get()), &info,
             WEXITED | WNOHANG) != 0 ||
      info.si_pid == 0)
    return false;
  reaped_ = true;
  if (info.si_code == CLD_EXITED) {
    end_ = "exited with status " + std::to_string(info.si_status);
  } else {
    const char* name = sigdescr_np(info.si_status);
    end_ = "was killed by signal " + std::to_string(info.si_status) + " (" +
           (name == nullptr ? "unknown" : name) + ")";
  }
  return true;
}

}  // namespace rankcast::base
