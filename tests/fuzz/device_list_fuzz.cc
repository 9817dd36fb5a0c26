// Any string is a device list or is refused; what is accepted is printed and parsed to the same
// again.
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "base/check.h"
#include "device/device_list.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rankcast;
  const std::string_view list(reinterpret_cast<const char*>(data), size);
  const auto devices = device::parse_device_list(list);
  if (!devices) {
    RC_CHECK(devices.error().code == ErrorCode::invalid_argument);
    RC_CHECK(devices.error().text.size() < 1000);
    return 0;
  }
  RC_CHECK(!devices->empty() && devices->size() <= device::kMaxDevices);
  std::set<std::string> names;
  std::string printed;
  for (const device::DeviceSpec& spec : *devices) {
    RC_CHECK(names.insert(spec.name()).second);
    printed += (printed.empty() ? "" : ",") + spec.to_string();
  }
  // Options are printed for each device of their range, which can make a list too long to be one.
  const auto again = device::parse_device_list(printed);
  RC_CHECK(printed.size() > 65'536 || (again && *again == *devices));
  return 0;
}
