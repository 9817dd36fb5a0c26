#include "tools/rankcast/bench_dispatch.h"

#include <fmt/core.h>

#include <cstdio>
#include <optional>

#include "bench/lib/output_file.h"
#include "bench/lib/report.h"
#include "tools/rankcast/exit_code.h"
#include "tools/rankcast/interrupt.h"
#include "tools/rankcast/progress_bar.h"

namespace rankcast::tools {

int run_bench_dispatch(const BenchDispatch& command) {
  bench::check_options(command.options);
  const InterruptWatch watch;  // before there is a file that would be left behind
  std::optional<bench::OutputFile> json;
  if (!command.json.empty()) json.emplace(command.json);

  ProgressBar bar("bench dispatch");
  const bench::DispatchResult result = bench::run_dispatch(command.options, [&](double done) {
    watch.throw_if_interrupted();
    bar.show(done);
  });
  bar.clear();

  const bench::Machine machine = bench::this_machine();
  const bench::Build build = bench::this_build();
  const bool json_on_stdout = json && json->is_standard_output();
  const std::string table = bench::dispatch_table(result, machine, build, command.command);
  std::fputs(table.c_str(), json_on_stdout ? stderr : stdout);
  if (json) json->write(bench::dispatch_json(result, machine, build));
  if (!result.wrong) return kExitGood;
  print_error(fmt::format("wrong result: {}", bench::wrong_result_text(result)).c_str());
  return kExitWrongResult;
}

}  // namespace rankcast::tools
