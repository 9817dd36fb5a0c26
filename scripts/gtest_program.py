"""One GoogleTest program: its cases, a run of some of them, and what each came to."""

from __future__ import annotations

import pathlib
import re
import subprocess
import xml.etree.ElementTree as ElementTree
from typing import Callable

from results import FAILED, PASSED, SKIPPED, Result
from watched import Limits, run_watched

EXCERPT_LINES = 60


def is_thorough(suite: str) -> bool:
    """A suite, also a parametrised or typed one, whose own name begins with `Thorough`."""
    return any(part.startswith("Thorough") for part in suite.split("/"))


def list_cases(binary: pathlib.Path) -> list[tuple[str, str]]:
    """All (suite, case) of a program."""
    listing = subprocess.run(
        [str(binary), "--gtest_list_tests"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=True,
    ).stdout
    return parse_listing(listing)


def parse_listing(listing: str) -> list[tuple[str, str]]:
    cases, suite = [], ""
    for line in listing.splitlines():
        name = line.split("#")[0].rstrip()
        if name.startswith("  "):
            cases.append((suite, name.strip()))
        elif name.endswith("."):
            suite = name[:-1]
    return cases


def run_program(
    binary: pathlib.Path,
    prefix: str,
    wanted: Callable[[str, str], bool],
    log: pathlib.Path,
    env: dict[str, str],
    limits: Limits,
) -> list[Result]:
    """Runs the cases that `wanted(suite, case)` chooses; a result's name is `prefix.suite.case`."""
    try:
        cases = list_cases(binary)
    except (subprocess.SubprocessError, OSError) as error:
        return [Result(f"{prefix}.list", FAILED, f"{binary} cannot list its cases: {error}")]
    chosen = [f"{suite}.{case}" for suite, case in cases if wanted(suite, case)]
    if not chosen:
        return []
    report = log.with_suffix(".xml")
    report.unlink(missing_ok=True)
    argv = [str(binary), f"--gtest_output=xml:{report}", "--gtest_color=no"]
    if len(chosen) < len(cases):
        flags = log.with_suffix(".flags")
        flags.parent.mkdir(parents=True, exist_ok=True)
        flags.write_text("--gtest_filter=" + ":".join(chosen) + "\n")
        argv.append(f"--gtest_flagfile={flags}")
    ended = run_watched(argv, log, env, limits)
    output = log.read_text(errors="replace")
    if report.exists() and not ended.hung:
        results = results_of_report(report.read_text(errors="replace"), prefix, output)
        failed = any(result.outcome == FAILED for result in results)
        if ended.status != 0 and not failed:
            detail = f"{ended.describe()} although every case passed\n{_tail(output)}"
            results.append(Result(f"{prefix}.exit", FAILED, detail))
        return results
    return results_of_broken_run(output, prefix, chosen, ended.describe())


def results_of_report(xml: str, prefix: str, output: str) -> list[Result]:
    results = []
    for suite in ElementTree.fromstring(xml).iter("testsuite"):
        for case in suite.iter("testcase"):
            if case.get("status") == "notrun":
                continue
            name = f"{suite.get('name')}.{case.get('name')}"
            skipped = case.find("skipped")
            if case.find("failure") is not None:
                result = Result(f"{prefix}.{name}", FAILED, excerpt(output, name))
            elif skipped is not None:
                result = Result(f"{prefix}.{name}", SKIPPED, _skip_reason(skipped))
            else:
                result = Result(f"{prefix}.{name}", PASSED)
            results.append(result)
    return results


def results_of_broken_run(output: str, prefix: str, chosen: list[str], how: str) -> list[Result]:
    """A program that was killed wrote no report: its output tells which case was the last."""
    outcomes, last = {}, ""
    for line in output.splitlines():
        match = re.match(r"\[ *(RUN|OK|FAILED|SKIPPED) *\] ([^\s,]+)", line)
        if not match:
            continue
        word, name = match.groups()
        if word == "RUN":
            last = name
        else:
            outcomes[name] = {"OK": PASSED, "FAILED": FAILED, "SKIPPED": SKIPPED}[word]
    results = [Result(f"{prefix}.{name}", outcome, excerpt(output, name) if outcome == FAILED else "")
               for name, outcome in outcomes.items()]
    culprit = last if last and last not in outcomes else "exit"
    started = f"last case started: {last or 'none'}"
    results.append(Result(f"{prefix}.{culprit}", FAILED, f"{how}; {started}\n{_tail(output)}"))
    for name in chosen:
        if name not in outcomes and name != culprit:
            results.append(Result(f"{prefix}.{name}", SKIPPED, f"not reached: {prefix} {how}"))
    return results


def excerpt(output: str, name: str) -> str:
    """What a program printed while case `name` ran."""
    lines = output.splitlines()
    start = next((i for i, line in enumerate(lines) if re.match(rf"\[ RUN +\] {re.escape(name)}$", line)), 0)
    stop = next((i for i, line in enumerate(lines[start:], start) if line.startswith("[  FAILED  ]")), len(lines))
    return "\n".join(lines[start : stop + 1][:EXCERPT_LINES])


def _skip_reason(skipped: ElementTree.Element) -> str:
    lines = (skipped.get("message") or skipped.text or "").strip().splitlines()
    return lines[-1].strip() if lines else "no reason given"


def _tail(output: str) -> str:
    return "\n".join(output.splitlines()[-EXCERPT_LINES:])
