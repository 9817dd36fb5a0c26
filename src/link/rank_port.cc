#include "link/rank_port.h"

#include "base/fixed_text.h"

namespace rankcast::link {

void RankPort::complain(const base::Status& status) noexcept {
  if (channel_->error_code != 0) return;
  base::copy_text(status.text, channel_->report);
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

}  // namespace rankcast::link
