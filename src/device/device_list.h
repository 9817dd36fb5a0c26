// Device strings: what a user types to say on which devices the ranks run.
//
//   list  := group (',' group)*
//   group := [kind ':'] n ['-' m] ['?' key=value ('&' key=value)*]
//
// A bare number keeps the kind of the group before it, else `cpu`. Options belong to their group
// alone. Blanks around groups are skipped. Whether a kind or an option exists is the registry's and
// the device's to say.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace rankcast::device {

/// The most devices that one list may name; also the most ranks of a mesh.
inline constexpr std::size_t kMaxDevices = 1024;

struct DeviceOption {
  std::string key;    ///< a lower-case letter, then lower-case letters, digits and '_'
  std::string value;  ///< at least one character; no blank, ',', '&' or '?'

  friend bool operator==(const DeviceOption&, const DeviceOption&) = default;
};

/// One device as it was asked for.
struct DeviceSpec {
  std::string kind;                   ///< spelled like a key of an option
  std::int32_t ordinal = 0;           ///< not negative
  std::vector<DeviceOption> options;  ///< in the order given, each key once

  /// "cpu:3".
  std::string name() const;
  /// "null:3?delay_us=50": a list of this one device.
  std::string to_string() const;

  friend bool operator==(const DeviceSpec&, const DeviceSpec&) = default;
};

/// The devices in the order of the list, 1 to `kMaxDevices` of them, no two of the same kind and
/// ordinal. Fails with `invalid_argument`: the list, the column of the fault (from 1), what was
/// found there and what is accepted; also for a list of more than 65,536 characters. Any thread;
/// nothing is made of a range before its length was checked.
base::Result<std::vector<DeviceSpec>> parse_device_list(std::string_view list);

}  // namespace rankcast::device
