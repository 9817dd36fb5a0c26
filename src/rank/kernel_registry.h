// The kernels of a mesh: names for people, dense ids for frames.
#pragma once

#include <array>
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

/// A loaded library as another process can load it too, with equal ids.
struct LibraryPlace {
  std::string path;  ///< Absolute.
  Digest digest{};
  std::uint32_t first_kernel = 0;
  std::uint32_t kernel_count = 0;
};

/// Kernels are only added, so an id means the same kernel until the registry is gone; it must
/// outlive every launch, and every prepared state must be released before. Ids of a library that
/// was claimed and given up stay without a kernel.
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

  /// Where ranks are processes: takes the ids for a library that they load first. Refuses as
  /// add_library does; nobody finds a kernel of it before add_library_at.
  base::Result<LibraryPlace> claim(const KernelLibrary& library);

  /// Adds the library's kernels at ids that the host has claimed for it. A name that is taken is no
  /// failure: the host has checked names, and gave the older one up. Does nothing where the same
  /// library has these ids already. `internal` for ids that others have or that do not exist.
  base::Status add_library_at(KernelLibrary library, std::uint32_t first_kernel);

  /// Adds a function of this process. It is called by the threads of all ranks that run it, several
  /// at once; what it throws becomes the failure of its task, with the argument of a
  /// rankcast::Error. `invalid_argument` for a malformed or taken name or an empty function,
  /// `out_of_memory` when it does not fit.
  base::Status add_function(std::string_view name, KernelFunction function);

  /// The id of a name. One uncontended lock and one hash; allocates nothing. Its caller keeps a
  /// memo where that is too much.
  std::optional<std::uint32_t> find(std::string_view name) const;

  /// The libraries in the order in which they were added: what a rank that starts later loads.
  std::vector<LibraryPlace> libraries() const;

  /// All names, sorted.
  std::vector<std::string> names() const;

  /// Ids were given out up to size() - 1. Any thread.
  std::uint32_t size() const noexcept;

  /// Null for an id that is not in use. Any thread; one load. An id that a rank takes from a
  /// published record was in use before the record was published, so it is found; the entry's
  /// fields are ordered by its own word, whatever carried the id.
  const KernelEntry* entry(std::uint32_t id) const noexcept;

 private:
  void put_locked(std::uint32_t id, KernelEntry entry) RC_REQUIRES(mutex_);
  /// Gives out ids up to before `end`.
  void give_out_locked(std::uint32_t end) RC_REQUIRES(mutex_);
  void put_library_locked(KernelLibrary library, std::uint32_t first) RC_REQUIRES(mutex_);
  base::Status check_library_locked(const KernelLibrary& library) const RC_REQUIRES(mutex_);
  /// Why `count` more kernels, or one of this name, cannot be added.
  base::Status check_space_locked(std::size_t count) const RC_REQUIRES(mutex_);
  base::Status check_name_locked(std::string_view name, std::string_view library) const
      RC_REQUIRES(mutex_);

  struct LoadedLibrary {
    KernelLibrary library;
    std::uint32_t first_kernel;
  };
  struct FreeEntries {
    void operator()(KernelEntry* entries) const noexcept;
  };

  mutable base::Mutex mutex_;
  // Tear-down, in this order (the reverse of the members): 1. index_, which views the names;
  // 2. the entries (in the destructor); 3. their memory; 4. functions_; 5. libraries_.
  std::vector<LoadedLibrary> libraries_ RC_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<KernelFunction>> functions_ RC_GUARDED_BY(mutex_);
  // Raw memory for kCapacity entries, of which those that are in use_ are constructed: addresses
  // are stable, and pages that are never reached cost nothing. An entry is written before it is in
  // use and never again.
  const std::unique_ptr<KernelEntry, FreeEntries> entries_;
  // By id. Written by whoever adds, under mutex_; read by any thread; ordered by kernel_entries.
  const std::unique_ptr<std::array<std::atomic<bool>, kCapacity>> in_use_;
  // Ids given out. Written by whoever adds, under mutex_; read by any thread; ordered by
  // kernel_entries.
  std::atomic<std::uint32_t> count_{0};
  std::unordered_map<std::string_view, std::uint32_t> index_ RC_GUARDED_BY(mutex_);
};

/// Loads the very file of a place, and adds it there. Fails as KernelLibrary::open and
/// KernelRegistry::add_library_at do.
base::Status load_library(const LibraryPlace& place, KernelRegistry& registry);

}  // namespace rankcast::rank
