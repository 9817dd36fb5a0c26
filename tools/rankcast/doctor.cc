#include "tools/rankcast/doctor.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <vector>

#include "bench/lib/output_file.h"
#include "tools/rankcast/check_list.h"
#include "tools/rankcast/kinds.h"
#include "tools/rankcast/machine_checks.h"
#include "tools/rankcast/self_test.h"
#include "tools/rankcast/variables.h"

namespace rankcast::tools {

namespace {

std::vector<Check> check_devices() {
  std::vector<Check> checks;
  for (const Kind& kind : probe_devices()) {
    checks.push_back(kind.reason.empty()
                         ? good(kind.name, "available")
                         : failed(kind.name, kind.reason, "see the lines around this one"));
  }
  return checks;
}

}  // namespace

int run_doctor(const Doctor& command) {
  std::optional<bench::OutputFile> json;
  if (!command.json.empty()) json.emplace(command.json);
  bool stuck = false;
  const std::vector<CheckGroup> groups = {
      {"versions", check_versions()},
      {"installation", check_files()},
      {"environment", check_variables(environ)},
      {"limits", check_limits()},
      {"shared memory", check_shared_memory()},
      {"cores", check_cores()},
      {"devices", check_devices()},
      {"links", {test_link("thread", &stuck), test_link("process", &stuck)}},
  };
  if (!json || !json->is_standard_output()) std::fputs(text_of(groups).c_str(), stdout);
  if (json) json->write(json_of(groups));
  const int code = exit_code_of(groups);
  if (stuck) {
    std::fflush(stdout);
    std::_Exit(code);
  }
  return code;
}

}  // namespace rankcast::tools
