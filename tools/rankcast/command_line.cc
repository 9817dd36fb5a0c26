// The only file that sees CLI11.
#include "tools/rankcast/command_line.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/core.h>

#include <cmath>
#include <cstdio>
#include <string>

#include "bench/lib/reference_ranks.h"
#include "rankcast/version.h"
#include "tools/rankcast/bench_dispatch.h"
#include "tools/rankcast/doctor.h"
#include "tools/rankcast/exit_code.h"
#include "tools/rankcast/info.h"

namespace rankcast::tools {

namespace {

// A word that a shell would not take as it stands is put into quotes.
std::string quoted(const std::string& word) {
  const bool plain =
      !word.empty() &&
      word.find_first_not_of(
          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:,=+@%") ==
          std::string::npos;
  if (plain) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string command_text(int argc, const char* const* argv) {
  std::string text = "rankcast";
  for (int i = 1; i < argc; ++i) text += " " + quoted(argv[i]);
  return text;
}

class CommandLine {
 public:
  CommandLine() {
    app_.set_version_flag("--version", fmt::format("rankcast {}", library_version()));
    info_ = app_.add_subcommand("info", "What this installation is and what it can use");
    add_info();
    doctor_ = app_.add_subcommand("doctor", "Whether this machine is fit for it, and what to do");
    doctor_json_ = add_json(doctor_, &doctor_command_.json);
    bench_ = app_.add_subcommand("bench", "Measure against an in-run reference");
    dispatch_ =
        bench_->add_subcommand("dispatch", "One program cast to all ranks, round after round");
    add_dispatch();
    reference_rank_ = app_.add_subcommand(bench::kReferenceRankCommand);
    reference_rank_->group("");  // not in the help: a benchmark starts it
  }

  int run(int argc, const char* const* argv) {
    try {
      app_.parse(argc, argv);
    } catch (const CLI::Success& success) {
      return app_.exit(success);  // --help and --version: prints to stdout
    } catch (const CLI::ParseError& error) {
      print_error(fmt::format("{} (see rankcast --help)", error.what()).c_str());
      return kExitUsage;
    }
    if (info_->parsed()) {
      if (info_json_->count() > 0 && info_command_.json.empty()) info_command_.json = "-";
      return run_guarded([&] { return run_info(info_command_); });
    }
    if (doctor_->parsed()) {
      if (doctor_json_->count() > 0 && doctor_command_.json.empty()) doctor_command_.json = "-";
      return run_guarded([&] { return run_doctor(doctor_command_); });
    }
    if (reference_rank_->parsed()) {
      return run_guarded([] {
        bench::run_reference_process();
        return kExitGood;
      });
    }
    if (!dispatch_->parsed()) {
      const char* missing = bench_->parsed() ? "bench needs a benchmark: dispatch"
                                             : "a command is needed: info, doctor or bench";
      print_error(fmt::format("{} (see rankcast --help)", missing).c_str());
      return kExitUsage;
    }
    dispatch_command_.command = command_text(argc, argv);
    return run_guarded([&] { return run_dispatch(); });
  }

 private:
  void add_info() {
    info_->add_option("--devices", info_command_.devices,
                      "Open these devices and describe the ranks");
    info_->add_option("--link", info_command_.link, "How the host reaches the ranks")
        ->capture_default_str();
    info_json_ = add_json(info_, &info_command_.json);
  }

  static CLI::Option* add_json(CLI::App* command, std::string* json) {
    CLI::Option* option = command->add_option(
        "--json", *json, "Write JSON to this file; with - or nothing, only JSON on stdout");
    return option->expected(0, 1)->type_name("[FILE|-]");
  }

  void add_dispatch() {
    bench::DispatchOptions& options = dispatch_command_.options;
    dispatch_->add_option("--devices", options.devices, "One device a rank, in rank order")
        ->capture_default_str();
    dispatch_->add_option("--rounds", options.rounds, "Timed rounds of each side")
        ->capture_default_str();
    CLI::Option* tensor_args = dispatch_
                                   ->add_option("--tensor-args", options.tensor_args,
                                                "Tensors a rank, the output among them")
                                   ->capture_default_str();
    dispatch_->add_option("--mode", options.mode, "How a round is submitted: orchestrated")
        ->capture_default_str();
    dispatch_
        ->add_option(
            "--link", options.link,
            "How the host reaches the ranks: thread, process, or both with a comma between")
        ->capture_default_str();
    dispatch_->add_option("--live-buffers", live_buffers_,
                          "Buffers alive on the mesh; compared with the job's own alone");
    dispatch_->add_option("--gap-us", options.gap_us, "Idle before each round, microseconds")
        ->capture_default_str();
    dispatch_
        ->add_option("--between", options.between,
                     "What happens on the mesh before each round, untimed: nothing, free, rotate")
        ->capture_default_str();
    dispatch_
        ->add_option("--safetensors", options.safetensors,
                     "Checksum the tensors of this file instead of summing small ones")
        ->excludes(tensor_args);
    dispatch_->add_option("--timeout-s", timeout_s_, "How long one round may take, seconds")
        ->capture_default_str();
    dispatch_
        ->add_option("--json", dispatch_command_.json,
                     "Write JSON to this file; with - only JSON on stdout, the table on stderr")
        ->type_name("FILE|-");
  }

  int run_dispatch() {
    bench::DispatchOptions& options = dispatch_command_.options;
    if (!std::isfinite(timeout_s_) || timeout_s_ <= 0 || timeout_s_ > kMaxTimeoutS) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("--timeout-s {} is out of range; accepted: more than 0, up to {}",
                              timeout_s_, kMaxTimeoutS));
    }
    options.limit = std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(timeout_s_));
    if (live_buffers_ >= 0) {
      options.live_buffers = static_cast<std::uint64_t>(live_buffers_);
    } else if (dispatch_->get_option("--live-buffers")->count() > 0) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("--live-buffers {} is less than 0", live_buffers_));
    }
    if (dispatch_->get_option("--safetensors")->count() > 0 && options.safetensors.empty()) {
      throw Error(ErrorCode::invalid_argument, "--safetensors names no file");
    }
    if (dispatch_->get_option("--json")->count() > 0 && dispatch_command_.json.empty()) {
      throw Error(ErrorCode::invalid_argument, "--json names no file");
    }
    return run_bench_dispatch(dispatch_command_);
  }

  static constexpr double kMaxTimeoutS = 1e6;

  CLI::App app_{"Tensors that stay on many devices, and programs cast to all of them at once"};
  CLI::App* info_ = nullptr;  // owned by app_, as the next seven
  CLI::Option* info_json_ = nullptr;
  CLI::App* doctor_ = nullptr;
  CLI::Option* doctor_json_ = nullptr;
  CLI::App* bench_ = nullptr;
  CLI::App* dispatch_ = nullptr;
  CLI::App* reference_rank_ = nullptr;
  Info info_command_;
  Doctor doctor_command_;
  BenchDispatch dispatch_command_;
  std::int64_t live_buffers_ = -1;
  double timeout_s_ = 60;
};

}  // namespace

int run_command_line(int argc, const char* const* argv) noexcept {
  return run_guarded([&] {
    const int code = CommandLine().run(argc, argv);
    // What was printed may only fail now: a full disk, a pipe that nobody reads.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      throw Error(ErrorCode::unsupported, "standard output cannot be written");
    }
    return code;
  });
}

}  // namespace rankcast::tools
