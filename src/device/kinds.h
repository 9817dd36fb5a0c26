// The kinds of devices, each defined by one file that shows nothing else. Only the registry and
// those files include this.
#pragma once

#include <string_view>

#include "base/status.h"
#include "device/device.h"

namespace rankcast::device {

DeviceKind cpu_kind();   // cpu.cc
DeviceKind null_kind();  // null.cc

/// invalid_argument for an option that the kind does not have; `known` lists those it has, or says
/// that there are none.
base::Status unknown_option(const DeviceSpec& spec, const DeviceOption& option,
                            std::string_view known);

}  // namespace rankcast::device
