#include "program/task_args.h"

#include <cstring>
#include <utility>
#include <vector>

#include "rankcast/kernel_abi.h"

namespace rankcast {
namespace {

using Storage = std::unique_ptr<detail::TaskArgsStorage>;

// The thread's storages that no TaskArgs holds; null once the thread has destroyed them: a static
// TaskArgs lives longer.
std::vector<Storage>* spare_storages() {
  struct Spares {
    std::vector<Storage> storages;
    bool* gone;
    ~Spares() { *gone = true; }
  };
  thread_local bool gone = false;
  if (gone) return nullptr;
  thread_local Spares spares{{}, &gone};
  return &spares.storages;
}

Storage take_storage() {
  std::vector<Storage>* spares = spare_storages();
  if (spares == nullptr || spares->empty()) {
    ++base::scratch_growths;
    return std::make_unique<detail::TaskArgsStorage>();
  }
  Storage storage = std::move(spares->back());
  spares->pop_back();
  return storage;
}

}  // namespace

TaskArgs::TaskArgs() : submit_(detail::current_submit), storage_(take_storage()) {
  begin_ = end_ = storage_->arguments.data();
  limit_ = storage_->arguments.end();
}

TaskArgs::~TaskArgs() {
  if (storage_ == nullptr) return;
  storage_->tensors.clear();
  storage_->scalars.clear();
  storage_->afters.clear();
  if (std::vector<Storage>* spares = spare_storages()) spares->push_back(std::move(storage_));
}

TaskArgs::TaskArgs(TaskArgs&& other) noexcept
    : begin_(std::exchange(other.begin_, nullptr)),
      end_(std::exchange(other.end_, nullptr)),
      limit_(std::exchange(other.limit_, nullptr)),
      submit_(other.submit_),
      storage_(std::move(other.storage_)) {}

TaskArgs& TaskArgs::operator=(TaskArgs&& other) noexcept {
  std::swap(begin_, other.begin_);
  std::swap(end_, other.end_);
  std::swap(limit_, other.limit_);
  std::swap(submit_, other.submit_);
  std::swap(storage_, other.storage_);
  return *this;
}

TaskArgs& TaskArgs::add(const DeviceTensor& tensor, Tag tag) {
  if (end_ == limit_) grow();
  const auto number = static_cast<std::uint32_t>(storage_->tensors.size());
  storage_->tensors.push(tensor);
  *end_++ = {detail::kOwnTensor, number, static_cast<std::uint32_t>(tag)};
  return *this;
}

TaskArgs& TaskArgs::scalar(Scalar value) {
  if (storage_ == nullptr) grow();
  frame::ScalarRecord record;
  if (value.is_integer()) {
    record.type = RANKCAST_SCALAR_I64;
    const std::int64_t bits = value.as_i64();
    std::memcpy(&record.bits, &bits, sizeof(bits));
  } else {
    record.type = RANKCAST_SCALAR_F64;
    const double bits = value.as_f64();
    std::memcpy(&record.bits, &bits, sizeof(bits));
  }
  storage_->scalars.push(record);
  return *this;
}

TaskArgs& TaskArgs::after(const Task& task) {
  if (storage_ == nullptr) grow();
  storage_->afters.push(task.submit_ == submit_ ? task.index_ : detail::kStrange);
  return *this;
}

TaskArgs& TaskArgs::after(const TaskGroup& group) {
  for (int i = 0; i < group.size(); ++i) after(group[i]);
  return *this;
}

std::span<const std::uint32_t> TaskArgs::afters() const noexcept {
  return storage_ == nullptr ? std::span<const std::uint32_t>() : storage_->afters.span();
}

std::span<const frame::ScalarRecord> TaskArgs::scalars() const noexcept {
  return storage_ == nullptr ? std::span<const frame::ScalarRecord>() : storage_->scalars.span();
}

std::size_t TaskArgs::own_tensor_count() const noexcept {
  return storage_ == nullptr ? 0 : storage_->tensors.size();
}

const DeviceTensor& TaskArgs::own_tensor(std::uint32_t number) const noexcept {
  return storage_->tensors[number];
}

// The storage's array is kept at its full size: what lies past end_ is room.
void TaskArgs::grow() {
  if (storage_ == nullptr) storage_ = take_storage();
  const std::size_t size = tensor_count();
  const std::size_t room = storage_->arguments.size();
  if (size == room) storage_->arguments.extend(room == 0 ? 16 : room);
  begin_ = storage_->arguments.data();
  end_ = begin_ + size;
  limit_ = storage_->arguments.end();
}

}  // namespace rankcast
