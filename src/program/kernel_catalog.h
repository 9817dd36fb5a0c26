// What the program side knows of kernels: their names, and the checks that run on the host.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rankcast/kernel_abi.h"

namespace rankcast::program {

/// A kernel as a task names it.
struct CatalogEntry {
  std::uint32_t id = 0;
  const rankcast_kernel* kernel = nullptr;  // lives as long as the catalog
};

/// Thread-safe; no function is on the path of a program that has run before.
class KernelCatalog {
 public:
  virtual ~KernelCatalog() = default;
  /// Nothing for a name nobody has. An entry that was found stays.
  virtual std::optional<CatalogEntry> find(std::string_view name) const = 0;
  /// All names, for a message: "a, b, c".
  virtual std::string describe() const = 0;
};

}  // namespace rankcast::program
