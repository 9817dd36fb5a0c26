#include "bench/lib/report.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <iterator>
#include <optional>

namespace rankcast::bench {

namespace {

constexpr int kBudgetRanks = 8;  // the budgets were set for the sum job on so many ranks
constexpr int kBudgetTensorArgs = 142;

struct Budgets {
  std::optional<double> submit;
  std::optional<double> total;
  std::optional<double> entry_spread;
};

// How many times the reference that repacks an orchestrated dispatch may take.
Budgets budgets(const DispatchResult& result) {
  if (result.job != "sum" || result.ranks != kBudgetRanks) return {};
  if (result.options.gap_us > 0) {
    if (result.tensor_args != kBudgetTensorArgs) return {};
    return {1.3, 1.3, std::nullopt};
  }
  if (result.tensor_args != kBudgetTensorArgs) return {std::nullopt, std::nullopt, 1.3};
  return {4.0, 1.6, 1.3};
}

class Table {
 public:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_.push_back('\n');
  }

  void header() {
    line("{:<34}{:>10}{:>10}{:>10}{:>10}{:>9}  budget", "microseconds", "median", "p99", "min",
         "max", "ratio");
  }

  void figures(const char* what, const char* side, const BlockSeries& series,
               const std::string& ratio = {}) {
    const Summary summary = summarize(series.values);
    line("{:<14}{:<20}{:>10.2f}{:>10.2f}{:>10.2f}{:>10.2f}{}", what, side, summary.median,
         summary.p99, summary.min, summary.max, ratio);
  }

  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

// How many times the mesh on threads the one on processes may take.
std::optional<double> process_budget(const DispatchResult& result) {
  if (result.job != "sum" || result.ranks != kBudgetRanks ||
      result.tensor_args != kBudgetTensorArgs || result.options.gap_us > 0) {
    return std::nullopt;
  }
  return 1.5;
}

std::string ratio_text(double ratio, std::optional<double> budget) {
  if (ratio <= 0) return {};
  std::string text = fmt::format("{:>8.{}f}x", ratio, ratio < 0.1 ? 4 : 2);
  if (!budget) return text;
  return fmt::format("{}  <= {:.1f} {}", text, *budget, ratio <= *budget ? "met" : "OVER");
}

void add_figures(Table& table, const LinkResult& link, const Budgets& budget) {
  struct Row {
    const char* what;
    BlockSeries SideResult::* series;
    double ratio;
    std::optional<double> budget;
  };
  const Row rows[] = {
      {"submit", &SideResult::submit_us, link.ratio.submit, budget.submit},
      {"wait", &SideResult::wait_us, 0, std::nullopt},
      {"total", &SideResult::total_us, link.ratio.total, budget.total},
      {"entry spread", &SideResult::entry_spread_us, link.ratio.entry_spread, budget.entry_spread},
  };
  for (const Row& row : rows) {
    table.figures(row.what, "mesh", link.product.*row.series, ratio_text(row.ratio, row.budget));
    if (link.minimum) {
      const bool submit = row.series == &SideResult::submit_us;
      table.figures("", "mesh, no spares", link.minimum->product.*row.series,
                    submit ? ratio_text(link.minimum->submit_ratio, 1.2) : std::string());
    }
    table.figures("", "reference", link.repacked.*row.series);
    table.figures("", "reference, reused", link.reused.*row.series);
  }
}

void add_entries(Table& table, const LinkResult& link) {
  constexpr std::size_t kAtMost = 16;
  std::string entries;
  for (std::size_t rank = 0; rank < link.product.entry_us.size(); ++rank) {
    if (rank == kAtMost) {
      entries += " ...";
      break;
    }
    entries += fmt::format(" {:.1f}", quantile(link.product.entry_us[rank], 0.5));
  }
  table.line("entry of each rank, median since submit:{}", entries);
}

void add_counters(Table& table, const char* side, const SubmitCounters& counters) {
  const auto each = [&](std::uint64_t count) {
    return counters.submits == 0
               ? 0.0
               : static_cast<double>(count) / static_cast<double>(counters.submits);
  };
  table.line(
      "a submit ({}): {:.6g} descriptors built, {:.6g} allocations, {:.6g} table visits, {:.6g} "
      "bytes "
      "written, {:.3g} wakes",
      side, each(counters.descriptors_built), each(counters.allocations),
      each(counters.table_visits), each(counters.bytes_written), each(counters.wakes));
}

void add_reference(Table& table, const LinkResult& link) {
  std::string calibration;
  for (const CalibrationResult& tried : link.calibration) {
    calibration += fmt::format("{}{}, {} {:.1f} us", calibration.empty() ? "" : "; ",
                               bell_name(tried.choice.bell),
                               base::store_kind_name(tried.choice.stores), tried.total_us);
  }
  table.line("reference: {} ranks, {}, {} stores{} (totals tried: {})", link.reference_ranks,
             bell_name(link.choice.bell), base::store_kind_name(link.choice.stores),
             link.reference_runs_kernel ? "" : ", no kernel", calibration);
}

// What stands below the figures.
void add_details(Table& table, const LinkResult& link) {
  add_reference(table, link);
  add_entries(table, link);
  add_counters(table, "mesh", link.counters);
  if (link.minimum) {
    add_counters(table, "mesh, no spares", link.minimum->counters);
    table.line("live buffers: {}, and {} without spares", link.live_buffers,
               link.minimum->live_buffers);
  }
  table.line("{} dispatches of the mesh, warm-up included", link.dispatches);
}

void add_process_over_thread(Table& table, const DispatchResult& result) {
  if (!result.process_over_thread) return;
  const std::optional<double> budget = process_budget(result);
  table.line("");
  table.line("mesh of link process / mesh of link thread, microseconds");
  table.line("{:<74}{}", "submit", ratio_text(result.process_over_thread->submit, budget));
  table.line("{:<74}{}", "total", ratio_text(result.process_over_thread->total, budget));
}

const char* verdict(const DispatchResult& result) {
  if (!result.verified) return "not verified: these devices run no kernels";
  return *result.verified ? "every result verified" : "WRONG RESULTS";
}

}  // namespace

std::string dispatch_table(const DispatchResult& result, const Machine& machine, const Build& build,
                           const std::string& command) {
  const DispatchOptions& options = result.options;
  Table table;
  table.line("{} ranks x {} tensors ({}), link {}, {}, {} rounds{}{}; {}", result.ranks,
             result.tensor_args, result.job, options.link, options.mode, options.rounds,
             options.gap_us == 0 ? "" : fmt::format(", {} us idle before each", options.gap_us),
             options.between == "nothing" ? "" : fmt::format(", {} between", options.between),
             verdict(result));
  table.line("{}", describe(machine));
  table.line("{}", describe(build));
  table.line("{}", command);
  table.line("");
  const Budgets budget = budgets(result);
  const bool several = result.links.size() > 1;
  table.header();
  for (const LinkResult& link : result.links) {
    if (several) table.line("link {}", link.link);
    add_figures(table, link, budget);
  }
  add_process_over_thread(table, result);
  table.line("");
  table.line(
      "ratio: median over blocks of {} rounds of mesh / reference{}, taken side by side in this "
      "run",
      kBlockRounds, result.links.front().minimum ? " (or mesh without spares)" : "");
  for (const LinkResult& link : result.links) {
    if (several) table.line("link {}", link.link);
    add_details(table, link);
  }
  if (result.wrong) table.line("wrong result: {}", wrong_result_text(result));
  return table.take();
}

std::string wrong_result_text(const DispatchResult& result) {
  if (!result.wrong) return {};
  const WrongResult& wrong = *result.wrong;
  const Mismatch& mismatch = wrong.mismatch;
  return fmt::format(
      "{}, round {}: rank {}, {}, element {}: found {}, expected {} ({} wrong in all)", wrong.side,
      wrong.round, mismatch.rank, mismatch.tensor, mismatch.element, mismatch.found,
      mismatch.expected, result.wrong_rounds);
}

}  // namespace rankcast::bench
