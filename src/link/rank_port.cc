#include "link/rank_port.h"

#include <algorithm>
#include <cstring>

namespace rankcast::link {

void RankPort::complain(const base::Status& status) noexcept {
  if (channel_->error_code != 0) return;
  const std::size_t length = std::min(status.text.size(), kReportBytes - 1);
  std::memcpy(channel_->report, status.text.data(), length);
  channel_->report[length] = '\0';
  channel_->error_code = static_cast<std::uint32_t>(status.code);
}

void RankPort::report(const base::Status& status) noexcept {
  if (!status.ok()) complain(status);
  base::store_seq_cst(channel_->state, status.ok() ? RankState::ready : RankState::failed);
  control_.waiters().notify();
}

void RankPort::give_up() noexcept {
  base::store_seq_cst(channel_->state, RankState::failed);
  control_.waiters().notify();
}

void RankPort::tell_stopped() noexcept {
  // What a rank reported that never got ready, or gave up, stays.
  if (base::load_seq_cst(channel_->state) == RankState::ready) {
    base::store_seq_cst(channel_->state, RankState::stopped);
  }
}

}  // namespace rankcast::link
