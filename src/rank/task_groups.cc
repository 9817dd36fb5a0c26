// Members of groups (PROTOCOL P7): tasks of several lanes that start together or not at all.
//
// A member waits for what comes before it like any task, and then votes (base/group_vote.h):
// whether it may start, and whether it has the preparation that its kernel needs. The last to vote
// decides, unless cancel or the keeper has. All that go on may have to make the preparation anew;
// then a second vote says whether all could. So what members do never depends on what one alone
// knows.
//
// A member that fails, once they run, sets the abort word: its peers may be waiting for it.
#include <fmt/core.h>

#include <cstring>
#include <utility>

#include "base/atomic.h"
#include "rank/task_runner.h"

namespace rankcast::rank {

using base::failure;
using base::GroupDecision;
using base::Status;
using frame::GroupRecord;
using frame::GroupWords;
using frame::Outcome;
using frame::TaskRecord;

namespace {

constexpr const char kPeersFailed[] = "gave up, since another member of its group did not go on";

// What a member says that fails once the group goes on: its peers may be waiting for it. The first
// is the one at fault; others that fail then may have waited for it in vain.
Status failed_member(GroupWords& words, Status status) {
  if (base::exchange_seq_cst(words.abort, 1u) != 0 && status.code == ErrorCode::task_failed) {
    status.code = ErrorCode::cancelled;
    status.text = fmt::format("{}: {}", kPeersFailed, status.text);
  }
  return status;
}

}  // namespace

Outcome TaskRunner::run_member(const TaskRecord& task, Outcome verdict, Status* status) {
  const frame::Frame& frame = at_hand_.resolved->frame();
  const GroupRecord& group = frame.groups[task.group];
  const frame::BlockRef place = at_hand_.run->group_words;
  std::byte* const block = find_block(port_, place);
  if (block == nullptr || group.group >= place.bytes / sizeof(GroupWords)) {
    *status = failure(ErrorCode::internal,
                      "damaged run record: the words of group {} are not in {} bytes at {} of "
                      "segment {}",
                      group.group, place.bytes, place.offset, place.segment);
    return Outcome::failed;
  }
  GroupWords& words = reinterpret_cast<GroupWords*>(block)[group.group];
  const KernelEntry* const entry = kernels_.entry(task.kernel);
  if (verdict == Outcome::good && entry == nullptr) {
    *status = failure(ErrorCode::internal, "damaged frame: kernel {} is unknown on this rank",
                      task.kernel);
    verdict = Outcome::failed;
  }
  const bool prepares = entry != nullptr && entry->abi.prepare != nullptr && device_.computes();
  const GroupDecision decision =
      vote(words.start,
           {.good = verdict == Outcome::good,
            .lacks = prepares && !prepared_.has_group(group.prepare_id, group.shared)},
           frame.members.subspan(group.members.first, group.members.count));
  if (decision == GroupDecision::skip) {
    if (verdict != Outcome::good) return verdict;
    return cancelled() ? Outcome::cancelled : Outcome::poisoned;
  }
  *status = run_in_group(task, words, decision == GroupDecision::go_prepared);
  return status->ok() ? Outcome::good : Outcome::failed;
}

// Until it is decided. Whoever decides wakes the others.
GroupDecision TaskRunner::vote(base::GroupVote& vote, base::GroupBallot ballot,
                               std::span<const std::uint32_t> members) noexcept {
  GroupDecision decision = vote.arrive(ballot, static_cast<std::uint32_t>(members.size()));
  if (decision != GroupDecision::undecided) {
    base::RankSet peers;
    for (const std::uint32_t member : members) {
      if (member < static_cast<std::uint32_t>(port_.world_size()))
        peers.insert(static_cast<int>(member));
    }
    port_.notify(peers);
    return decision;
  }
  port_.wait_until([&]() noexcept {
    decision = vote.decision();
    return decision != GroupDecision::undecided;
  });
  return decision;
}

Status TaskRunner::run_in_group(const TaskRecord& task, GroupWords& words, bool anew) {
  const frame::Frame& frame = at_hand_.resolved->frame();
  const GroupRecord& group = frame.groups[task.group];
  members_.clear();
  for (const std::uint32_t member :
       frame.members.subspan(group.members.first, group.members.count)) {
    members_.push(static_cast<std::int32_t>(member));
  }
  rankcast_kernel_context context = context_of();
  context.abort_word = reinterpret_cast<const std::uint32_t*>(&words.abort);
  context.members = members_.data();
  context.member_count = static_cast<std::int32_t>(members_.size());
  context.member_index = static_cast<std::int32_t>(group.member_index);
  const KernelEntry& entry = *kernels_.entry(task.kernel);
  Preparation preparation;
  preparation.state = entry.initial_state;
  if (entry.abi.prepare != nullptr && device_.computes()) {
    Status status = prepare_member(task, words, anew, context, &preparation);
    if (!status.ok()) return status;
  }
  Status status = start(entry.abi, preparation, context, call_of(task));
  if (status.ok()) return status;
  // Where in its memory and its peers' it stopped nobody knows: all prepare anew next time.
  prepared_.forget_group(group.prepare_id);
  return failed_member(words, std::move(status));
}

Status TaskRunner::prepare_member(const TaskRecord& task, GroupWords& words, bool anew,
                                  rankcast_kernel_context& context, Preparation* preparation) {
  const frame::Frame& frame = at_hand_.resolved->frame();
  const GroupRecord& group = frame.groups[task.group];
  std::uint64_t segment_bytes = 0;
  std::byte* const segment = port_.segment(group.shared.segment, &segment_bytes);
  const std::uint64_t all = std::uint64_t{group.shared.bytes} * group.members.count;
  const bool inside = segment != nullptr && group.shared.offset <= segment_bytes &&
                      all <= segment_bytes - group.shared.offset;
  Status status =
      inside ? Status()
             : failure(ErrorCode::internal,
                       "damaged frame: the shared memory of group {} is not there", group.group);
  if (inside) {
    peer_shared_.clear();
    for (std::uint32_t i = 0; i < group.members.count; ++i) {
      peer_shared_.push(segment + group.shared.offset + std::uint64_t{i} * group.shared.bytes);
    }
    context.shared = peer_shared_[group.member_index];
    context.shared_bytes = group.shared.bytes;
    context.peer_shared = peer_shared_.data();
    std::int32_t argument = -1;
    auto prepared = prepared_.get_group(group, anew, kernels_.entry(task.kernel)->abi, context,
                                        call_of(task), &argument);
    if (prepared) {
      *preparation = *prepared;
      context.shared_bytes = prepared->shared_bytes;
    } else {
      status = std::move(prepared).error().with_argument(argument);
    }
  }
  if (!status.ok()) status = failed_member(words, std::move(status));
  if (!anew) return status;
  if (status.ok()) std::memset(context.shared, 0, preparation->shared_bytes);
  const bool good = status.ok();
  const GroupDecision decision =
      vote(words.prepared, {.good = good},
           frame.members.subspan(group.members.first, group.members.count));
  if (decision == GroupDecision::go) return {};
  prepared_.forget_group(group.prepare_id);
  return good ? failure(ErrorCode::cancelled, "{}", kPeersFailed) : status;
}

}  // namespace rankcast::rank
