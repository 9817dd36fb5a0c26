#include "program/task_args.h"

#include <cstring>
#include <utility>
#include <vector>

#include "rankcast/kernel_abi.h"

namespace rankcast {
namespace {

using Storage = std::unique_ptr<detail::TaskArgsStorage>;

// The thread's storages that no TaskArgs holds.
std::vector<Storage>& spare_storages() {
  thread_local std::vector<Storage> spares;
  return spares;
}

Storage take_storage() {
  std::vector<Storage>& spares = spare_storages();
  if (spares.empty()) {
    ++base::scratch_growths;
    return std::make_unique<detail::TaskArgsStorage>();
  }
  Storage storage = std::move(spares.back());
  spares.pop_back();
  return storage;
}

}  // namespace

TaskArgs::TaskArgs() : storage_(take_storage()) {
  arguments_ = storage_->arguments.data();
  capacity_ = storage_->arguments.size();
}

TaskArgs::~TaskArgs() {
  if (storage_ == nullptr) return;
  storage_->tensors.clear();
  storage_->scalars.clear();
  spare_storages().push_back(std::move(storage_));
}

TaskArgs::TaskArgs(TaskArgs&& other) noexcept
    : arguments_(std::exchange(other.arguments_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      capacity_(std::exchange(other.capacity_, 0)),
      storage_(std::move(other.storage_)) {}

TaskArgs& TaskArgs::operator=(TaskArgs&& other) noexcept {
  std::swap(arguments_, other.arguments_);
  std::swap(size_, other.size_);
  std::swap(capacity_, other.capacity_);
  std::swap(storage_, other.storage_);
  return *this;
}

TaskArgs& TaskArgs::add(const DeviceTensor& tensor, Tag tag) {
  if (size_ == capacity_) grow();
  const auto index = static_cast<std::int32_t>(storage_->tensors.size());
  storage_->tensors.push(tensor);
  arguments_[size_++] = {nullptr, index, tag};
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

// The storage's array is kept at its full size: what lies past size_ is room.
void TaskArgs::grow() {
  if (storage_ == nullptr) storage_ = take_storage();
  storage_->arguments.extend(capacity_ == 0 ? 16 : capacity_);
  arguments_ = storage_->arguments.data();
  capacity_ = storage_->arguments.size();
}

}  // namespace rankcast
