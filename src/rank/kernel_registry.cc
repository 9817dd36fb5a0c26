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

KernelRegistry::KernelRegistry()
    : entries_(std::allocator<KernelEntry>().allocate(kCapacity)),
      in_use_(std::make_unique<std::array<std::atomic<bool>, kCapacity>>()) {}

KernelRegistry::~KernelRegistry() {
  for (std::uint32_t id = 0; id < size(); ++id) {
    if (entry(id) != nullptr) std::destroy_at(entries_.get() + id);
  }
}

std::uint32_t KernelRegistry::size() const noexcept {
  return base::load_acquire(count_);  // pairs: kernel_entries
}

const KernelEntry* KernelRegistry::entry(std::uint32_t id) const noexcept {
  const bool used = id < kCapacity && base::load_acquire((*in_use_)[id]);  // pairs: kernel_entries
  return used ? entries_.get() + id : nullptr;
}

void KernelRegistry::put_locked(std::uint32_t id, KernelEntry entry) {
  KernelEntry* added = std::construct_at(entries_.get() + id, std::move(entry));
  added->abi.name = added->name.c_str();
  index_.insert_or_assign(added->name, id);
  base::store_release((*in_use_)[id], true);  // pairs: kernel_entries
}

void KernelRegistry::give_out_locked(std::uint32_t end) {
  if (end > base::load_relaxed(count_)) {  // relaxed: only written under mutex_
    base::store_release(count_, end);      // pairs: kernel_entries
  }
}

base::Status KernelRegistry::check_space_locked(std::size_t count) const {
  const std::size_t used = base::load_relaxed(count_);  // relaxed: only written under mutex_
  if (count <= kCapacity - used) return {};
  return base::failure(
      ErrorCode::out_of_memory,
      "{} kernel(s) more do not fit: {} of at most {} are in use; open another mesh for them",
      count, used, kCapacity);
}

base::Status KernelRegistry::check_name_locked(std::string_view name,
                                               std::string_view library) const {
  const auto found = index_.find(name);
  if (found == index_.end()) return {};
  return base::failure(ErrorCode::invalid_argument,
                       "the kernel name \"{}\" of {} is taken by {}: names are unique in a mesh",
                       name, library, entries_.get()[found->second].library);
}

base::Status KernelRegistry::check_library_locked(const KernelLibrary& library) const {
  base::Status status = check_space_locked(library.kernels().size());
  for (const rankcast_kernel& kernel : library.kernels()) {
    if (!status.ok()) return status;
    status = check_name_locked(kernel.name, library.path());
  }
  return status;
}

void KernelRegistry::put_library_locked(KernelLibrary library, std::uint32_t first) {
  libraries_.push_back({std::move(library), first});
  const KernelLibrary& kept = libraries_.back().library;
  std::uint32_t id = first;
  for (const rankcast_kernel& kernel : kept.kernels()) {
    put_locked(id++, {.name = kernel.name, .abi = kernel, .library = kept.path()});
  }
  give_out_locked(id);
}

base::Status KernelRegistry::add_library(KernelLibrary library) {
  base::MutexLock lock(mutex_);
  if (base::Status status = check_library_locked(library); !status.ok()) return status;
  put_library_locked(std::move(library),
                     base::load_relaxed(count_));  // relaxed: only written under mutex_
  return {};
}

base::Result<LibraryPlace> KernelRegistry::claim(const KernelLibrary& library) {
  base::MutexLock lock(mutex_);
  if (base::Status status = check_library_locked(library); !status.ok())
    return tl::unexpected(std::move(status));
  const std::uint32_t first = base::load_relaxed(count_);  // relaxed: only written under mutex_
  const auto count = static_cast<std::uint32_t>(library.kernels().size());
  give_out_locked(first + count);
  return LibraryPlace{std::filesystem::absolute(library.path()).string(), library.digest(), first,
                      count};
}

base::Status KernelRegistry::add_library_at(KernelLibrary library, std::uint32_t first_kernel) {
  const std::size_t count = library.kernels().size();
  base::MutexLock lock(mutex_);
  for (const LoadedLibrary& loaded : libraries_) {
    if (loaded.first_kernel == first_kernel && loaded.library.digest() == library.digest())
      return {};
  }
  bool free = first_kernel <= kCapacity && count <= kCapacity - first_kernel;
  for (std::size_t i = 0; i < count && free; ++i) {
    free = entry(first_kernel + static_cast<std::uint32_t>(i)) == nullptr;
  }
  if (!free) {
    return base::failure(ErrorCode::internal,
                         "kernel library \"{}\": ids from {} on for {} kernels are not free",
                         library.path(), first_kernel, count);
  }
  put_library_locked(std::move(library), first_kernel);
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
  const std::uint32_t id = base::load_relaxed(count_);  // relaxed: only written under mutex_
  put_locked(id, std::move(entry));
  give_out_locked(id + 1);
  return {};
}

std::optional<std::uint32_t> KernelRegistry::find(std::string_view name) const {
  base::MutexLock lock(mutex_);
  const auto found = index_.find(name);
  if (found == index_.end()) return std::nullopt;
  return found->second;
}

std::vector<LibraryPlace> KernelRegistry::libraries() const {
  std::vector<LibraryPlace> places;
  base::MutexLock lock(mutex_);
  places.reserve(libraries_.size());
  for (const auto& [library, first] : libraries_) {
    places.push_back({std::filesystem::absolute(library.path()).string(), library.digest(), first,
                      static_cast<std::uint32_t>(library.kernels().size())});
  }
  return places;
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

base::Status load_library(const LibraryPlace& place, KernelRegistry& registry) {
  auto library = KernelLibrary::open(place.path, place.digest);
  if (!library) return std::move(library).error();
  if (library->kernels().size() != place.kernel_count) {
    return base::failure(ErrorCode::internal, "kernel library \"{}\": has {} kernels, not {}",
                         place.path, library->kernels().size(), place.kernel_count);
  }
  return registry.add_library_at(std::move(*library), place.first_kernel);
}

}  // namespace rankcast::rank
