// A kernel library opened by hand: the reference calls the very kernels that a mesh runs.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "rankcast/kernel_abi.h"

namespace rankcast::bench {

/// An open kernel library. Copies share it; it stays loaded while one lives. Any thread may read.
class KernelLibrary {
 public:
  /// Throws `Error(unsupported)` naming the file when it cannot be loaded, exports no kernel table
  /// or was built for another version of the kernel ABI.
  static KernelLibrary open(const std::string& path);

  /// The built-in kernels, from the file where a mesh finds them: what RANKCAST_KERNEL_LIBRARY
  /// names, else beside the Rankcast library of this process or in `../lib` or `../../lib` from
  /// there. Throws as `open`.
  static KernelLibrary open_builtin();

  /// Of the file, as `open` was given it.
  const std::string& path() const { return path_; }

  /// Throws `Error(unsupported)` for a name that the library has not.
  const rankcast_kernel& find(std::string_view name) const;

 private:
  KernelLibrary(std::string path, std::shared_ptr<void> handle, const rankcast_kernel_table& table)
      : path_(std::move(path)), handle_(std::move(handle)), table_(&table) {}

  std::string path_;
  std::shared_ptr<void> handle_;        // closed with the last copy
  const rankcast_kernel_table* table_;  // in the library that handle_ keeps loaded
};

}  // namespace rankcast::bench
