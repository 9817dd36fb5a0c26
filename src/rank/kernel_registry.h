// The kernels of a mesh: names for people, dense ids for frames.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "rank/kernel_library.h"
#include "rankcast/kernel_abi.h"
#include "rankcast/mesh.h"

namespace rankcast::rank {

/// One kernel. Never changes once it has an id.
struct KernelEntry {
  std::string name;
  rankcast_kernel abi{};  ///< `abi.name` is `name`.
  /// The state that `run` gets when `abi.prepare` is null.
  void* initial_state = nullptr;
  std::string library;  ///< Path of its library; "function" for a function of this process.
};

/// Kernels are only added, so an id means the same kernel until the registry is gone; it must
/// outlive every launch, and every prepared state must be released before.
///
/// Threads: `entry` and `size` may be called from any thread while another adds, take no lock and
/// wait for nothing. Everything else takes an own mutex, which is a leaf: nothing else is locked
/// and no code of a user runs while it is held.
class KernelRegistry {
 public:
  static constexpr std::uint32_t kCapacity = 4096;

  KernelRegistry();
  ~KernelRegistry();
  KernelRegistry(const KernelRegistry&) = delete;
  KernelRegistry& operator=(const KernelRegistry&) = delete;

  /// Adds every kernel of the library, or none: `invalid_argument` for a name that is taken (says
  /// by which library), `out_of_memory` when they do not all fit. Keeps the library loaded till the
  /// end; a refused one is unloaded.
  base::Status add_library(KernelLibrary library);

  /// Adds a function of this process. It is called by the threads of all ranks that run it, several
  /// at once; what it throws becomes the failure of its task, with the argument of a
  /// rankcast::Error. `invalid_argument` for a malformed or taken name or an empty function,
  /// `out_of_memory` when it does not fit.
  base::Status add_function(std::string_view name, KernelFunction function);

  /// The id of a name. One uncontended lock and one hash; allocates nothing. Its caller keeps a
  /// memo where that is too much.
  std::optional<std::uint32_t> find(std::string_view name) const;

  /// Of the libraries, in the order in which they were added: absolute.
  std::vector<std::string> library_paths() const;

  /// All names, sorted.
  std::vector<std::string> names() const;

  /// Ids in use are 0 .. size() - 1. Any thread.
  std::uint32_t size() const noexcept;

  /// Null for an id that is not in use. Any thread; one load. An id that a rank takes from a
  /// published record was in use before the record was published, so it is found; the entry's
  /// fields are ordered by the count alone, whatever carried the id.
  const KernelEntry* entry(std::uint32_t id) const noexcept;

 private:
  void append_locked(KernelEntry entry) RC_REQUIRES(mutex_);
  /// Why `count` more kernels, or one of this name, cannot be added.
  base::Status check_space_locked(std::size_t count) const RC_REQUIRES(mutex_);
  base::Status check_name_locked(std::string_view name, std::string_view library) const
      RC_REQUIRES(mutex_);

  struct FreeEntries {
    void operator()(KernelEntry* entries) const noexcept;
  };

  mutable base::Mutex mutex_;
  // Tear-down, in this order (the reverse of the members): 1. index_, which views the names;
  // 2. the entries (in the destructor); 3. their memory; 4. functions_; 5. libraries_.
  std::vector<KernelLibrary> libraries_ RC_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<KernelFunction>> functions_ RC_GUARDED_BY(mutex_);
  // Raw memory for kCapacity entries, of which the first count_ are constructed: addresses are
  // stable, and pages that are never reached cost nothing. An entry is written before count_ passes
  // it and never again.
  const std::unique_ptr<KernelEntry, FreeEntries> entries_;
  // Written by whoever adds, under mutex_; read by any thread; ordered by kernel_entries.
  std::atomic<std::uint32_t> count_{0};
  std::unordered_map<std::string_view, std::uint32_t> index_ RC_GUARDED_BY(mutex_);
};

}  // namespace rankcast::rank
