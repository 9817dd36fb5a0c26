// The table of kinds.
#include <algorithm>
#include <array>
#include <string>

#include "device/device.h"
#include "device/kinds.h"

namespace rankcast::device {
namespace {

base::Result<const DeviceKind*> find_kind(const DeviceSpec& spec) {
  const auto kinds = device_kinds();
  const auto found = std::find_if(kinds.begin(), kinds.end(),
                                  [&](const DeviceKind& kind) { return kind.name == spec.kind; });
  if (found != kinds.end()) return &*found;
  std::string known;
  for (const DeviceKind& kind : kinds) {
    if (!known.empty()) known += ", ";
    known += kind.name;
  }
  return base::unexpected_failure(ErrorCode::invalid_argument,
                                  "device \"{}\": no kind \"{}\"; this build knows {}",
                                  spec.to_string(), spec.kind, known);
}

/// The kind of a spec that has passed every check.
base::Result<const DeviceKind*> checked_kind(const DeviceSpec& spec) {
  base::Result<const DeviceKind*> kind = find_kind(spec);
  if (!kind) return kind;
  base::Status status = (*kind)->check(spec);
  if (status.ok()) status = (*kind)->available();
  if (!status.ok()) return tl::unexpected(std::move(status));
  return kind;
}

}  // namespace

base::Status unknown_option(const DeviceSpec& spec, const DeviceOption& option,
                            std::string_view known) {
  return base::failure(ErrorCode::invalid_argument, "device \"{}\": no option \"{}\"; {} takes {}",
                       spec.to_string(), option.key, spec.kind, known);
}

std::span<const DeviceKind> device_kinds() {
  static const std::array kinds = {cpu_kind(), null_kind()};
  return kinds;
}

base::Status check_device(const DeviceSpec& spec) {
  base::Result<const DeviceKind*> kind = checked_kind(spec);
  return kind ? base::Status{} : std::move(kind).error();
}

base::Result<std::unique_ptr<Device>> create_device(const DeviceSpec& spec, SignalSink& sink) {
  base::Result<const DeviceKind*> kind = checked_kind(spec);
  if (!kind) return tl::unexpected(std::move(kind).error());
  return (*kind)->create(spec, sink);
}

}  // namespace rankcast::device
