"""What a test or a check came to, and the lines in which a person reads it."""

from __future__ import annotations

import dataclasses
import time

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclasses.dataclass(frozen=True)
class Result:
    """One counted case: a GoogleTest case, a method of a Python test, or a check."""

    name: str
    outcome: str
    detail: str = ""


@dataclasses.dataclass(frozen=True)
class Report:
    """What one check found: it passes without problems, or says why it could not look."""

    problems: list[str]
    note: str = ""
    skipped: str = ""


class Tally:
    """Collects results and prints progress: a line a group, and the detail of what did not pass."""

    def __init__(self) -> None:
        self._counts = {PASSED: 0, FAILED: 0, SKIPPED: 0}
        self._failures: list[str] = []

    def add(self, group: str, results: list[Result], started: float) -> None:
        counts = {PASSED: 0, FAILED: 0, SKIPPED: 0}
        for result in results:
            counts[result.outcome] += 1
            self._counts[result.outcome] += 1
        seconds = time.monotonic() - started
        print(f"  {group:<28} {_sentence(counts)}  ({seconds:.1f} s)", flush=True)
        for result in results:
            if result.outcome == FAILED:
                self._failures.append(result.name)
                print(f"FAILED {result.name}\n{_indent(result.detail)}", flush=True)
            elif result.outcome == SKIPPED:
                print(f"    skipped {result.name}: {result.detail.strip()}", flush=True)

    def close(self) -> int:
        """Prints the closing line; returns the exit status: 0, 1 on a failure, 2 if nothing ran."""
        for name in self._failures:
            print(f"failed: {name}")
        ran = self._counts[PASSED] + self._counts[FAILED]
        if not ran:
            print("no test ran: the filter matches none, or all that match were skipped")
        print(_sentence(self._counts), flush=True)
        if not ran:
            return 2
        return 1 if self._counts[FAILED] else 0


def _sentence(counts: dict[str, int]) -> str:
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in (PASSED, FAILED, SKIPPED))


def _indent(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.rstrip().splitlines())
