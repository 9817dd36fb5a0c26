"""./dev check: every check that takes less than a minute, one line each.

`CHECKS` is the list; ./dev test runs the cheap ones and ./dev test --thorough the slow ones.
"""

from __future__ import annotations

import dataclasses
import pathlib
import sys
import time
from typing import Callable

import check_doc_names
import check_format
import check_headers
import check_layers
import check_orders
import check_shell
import check_sizes
import check_tidy
import check_units
import check_words
import tree
from results import FAILED, PASSED, SKIPPED, Report, Result

# CHEAP: in ./dev check and ./dev test. EDIT: in ./dev check alone. SLOW: in ./dev test --thorough.
CHEAP, EDIT, SLOW = "cheap", "edit", "slow"


@dataclasses.dataclass(frozen=True)
class Check:
    name: str
    kind: str
    report: Callable[[pathlib.Path], Report]


CHECKS = [
    Check("format", CHEAP, check_format.report),
    Check("layers", CHEAP, check_layers.report),
    Check("sizes", CHEAP, check_sizes.report),
    Check("orders", CHEAP, check_orders.report),
    Check("doc-names", CHEAP, check_doc_names.report),
    Check("units", CHEAP, check_units.report),
    Check("words", CHEAP, check_words.report),
    Check("shell", CHEAP, check_shell.report),
    Check("headers", CHEAP, check_headers.report),
    Check("tidy-changed", EDIT, check_tidy.report_changed),
    Check("tidy", SLOW, check_tidy.report_all),
    Check("other-processor", SLOW, check_headers.report_other_processor),
]


def run_check(check: Check) -> tuple[Result, str]:
    """The result of one check on this tree, and the note that goes with it."""
    try:
        report = check.report(tree.ROOT)
    except Exception as error:  # a check that breaks has not passed
        return Result(f"check.{check.name}", FAILED, f"{type(error).__name__}: {error}"), ""
    if report.skipped:
        return Result(f"check.{check.name}", SKIPPED, report.skipped), ""
    outcome = FAILED if report.problems else PASSED
    return Result(f"check.{check.name}", outcome, "\n".join(report.problems)), report.note


def main() -> int:
    counts = {PASSED: 0, FAILED: 0, SKIPPED: 0}
    for check in CHECKS:
        if check.kind == SLOW:
            continue
        started = time.monotonic()
        result, note = run_check(check)
        counts[result.outcome] += 1
        seconds = time.monotonic() - started
        print(f"{result.outcome:<8} {check.name:<13} {note}  ({seconds:.1f} s)", flush=True)
        for line in result.detail.splitlines():
            print(f"    {line}", flush=True)
    print(", ".join(f"{counts[outcome]} {outcome}" for outcome in counts))
    return 1 if counts[FAILED] else 0


if __name__ == "__main__":
    sys.exit(main())
