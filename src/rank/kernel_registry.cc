#include "rank/kernel_registry.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>

#include "base/atomic.h"
#include "rankcast/error.h"

namespace rankcast::rank {
namespace {

constexpr const char* kFunctionLibrary = "function";

int fail(rankcast_failure* failure, int argument, const char* text) noexcept {
  failure->argument = argument;
  std::snprintf(failure->text, sizeof(failure->text), "%s", text);
  return RANKCAST_FAILED;
}

/// What `run` of a registered function is: exceptions end here.
int run_function(const rankcast_kernel_context* context, void* state, const rankcast_call* call,
                 rankcast_failure* failure) noexcept {
  try {
    const auto& function = *static_cast<const KernelFunction*>(state);
    function(KernelCall{.context = *context,
                        .tensors = std::span(call->tensors, call->tensor_count),
                        .scalars = std::span(call->scalars, call->scalar_count)});
    return RANKCAST_OK;
  } catch (const Error& error) {
    return fail(failure, error.argument().value_or(-1), error.what());
  } catch (const std::exception& error) {
    return fail(failure, -1, error.what());
  } catch (...) {
    return fail(failure, -1, "the function threw something that is no std::exception");
  }
}

}  // namespace

void KernelRegistry::FreeEntries::operator()(KernelEntry* entries) const noexcept {
  std::allocator<KernelEntry>().deallocate(entries, kCapacity);
}

KernelRegistry::KernelRegistry() : entries_(std::allocator<KernelEntry>().allocate(kCapacity)) {}

KernelRegistry::~KernelRegistry() { std::destroy_n(entries_.get(), size()); }

std::uint32_t KernelRegistry::size() const noexcept {
  return base::load_acquire(count_);  // pairs: kernel_entries
}

const KernelEntry* KernelRegistry::entry(std::uint32_t id) const noexcept {
  return id < size() ? entries_.get() + id : nullptr;
}

void KernelRegistry::append_locked(KernelEntry entry) {
  const std::uint32_t id = base::load_relaxed(count_);  // relaxed: only written under mutex_
  KernelEntry* added = std::construct_at(entries_.get() + id, std::move(entry));
  added->abi.name = added->name.c_str();
  index_.emplace(added->name, id);
  base::store_release(count_, id + 1);  // pairs: kernel_entries
}

base::Status KernelRegistry::check_space_locked(std::size_t count) const {
  const std::size_t used = base::load_relaxed(count_);  // relaxed: only written under mutex_
  if (count <= kCapacity - used) return {};
  return base::failure(ErrorCode::out_of_memory,
                       "{} kernel(s) more do not fit: {} of at most {} are in use", count, used,
                       kCapacity);
}

base::Status KernelRegistry::check_name_locked(std::string_view name,
                                               std::string_view library) const {
  const auto found = index_.find(name);
  if (found == index_.end()) return {};
  return base::failure(ErrorCode::invalid_argument,
                       "the kernel name \"{}\" of {} is taken by {}: names are unique in a mesh",
                       name, library, entries_.get()[found->second].library);
}

base::Status KernelRegistry::add_library(KernelLibrary library) {
  base::MutexLock lock(mutex_);
  base::Status status = check_space_locked(library.kernels().size());
  if (!status.ok()) return status;
  for (const rankcast_kernel& kernel : library.kernels()) {
    status = check_name_locked(kernel.name, library.path());
    if (!status.ok()) return status;
  }
  libraries_.push_back(std::move(library));
  const KernelLibrary& kept = libraries_.back();
  for (const rankcast_kernel& kernel : kept.kernels()) {
    append_locked({.name = kernel.name, .abi = kernel, .library = kept.path()});
  }
  return {};
}

base::Status KernelRegistry::add_function(std::string_view name, KernelFunction function) {
  if (!is_kernel_name(name)) {
    return base::failure(ErrorCode::invalid_argument,
                         "the kernel name \"{}\": lower-case letters, digits and '_' are allowed, "
                         "with a '.' between the library's and the kernel's name",
                         name);
  }
  if (!function) {
    return base::failure(ErrorCode::invalid_argument, "the function for kernel \"{}\" is empty",
                         name);
  }
  base::MutexLock lock(mutex_);
  base::Status status = check_space_locked(1);
  if (!status.ok()) return status;
  status = check_name_locked(name, kFunctionLibrary);
  if (!status.ok()) return status;
  functions_.push_back(std::make_unique<KernelFunction>(std::move(function)));
  KernelEntry entry{.name = std::string(name),
                    .initial_state = functions_.back().get(),
                    .library = kFunctionLibrary};
  entry.abi.struct_size = sizeof(rankcast_kernel);
  entry.abi.run = run_function;
  append_locked(std::move(entry));
  return {};
}

std::optional<std::uint32_t> KernelRegistry::find(std::string_view name) const {
  base::MutexLock lock(mutex_);
  const auto found = index_.find(name);
  if (found == index_.end()) return std::nullopt;
  return found->second;
}

std::vector<std::string> KernelRegistry::library_paths() const {
  std::vector<std::string> paths;
  base::MutexLock lock(mutex_);
  for (const KernelLibrary& library : libraries_) {
    paths.push_back(std::filesystem::absolute(library.path()).string());
  }
  return paths;
}

std::vector<std::string> KernelRegistry::names() const {
  std::vector<std::string> names;
  {
    base::MutexLock lock(mutex_);
    names.reserve(index_.size());
    for (const auto& [name, id] : index_) names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace rankcast::rank
