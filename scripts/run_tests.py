"""./dev test: builds, runs what was asked for, closes with one line `N passed, N failed, N skipped`.

Quick: all checks that are cheap, the Python tests, and every GoogleTest case of the release build.
Thorough: what quick leaves out. Suites named `Thorough...` in the release build and under both
sanitizers (`ThoroughRelease...` in the release build only), quick suites under the sanitizers, and
the fuzzers, and the checks that take minutes.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import subprocess
import sys
import time

import check
import fuzzers
import gtest_program
import python_tests
from results import FAILED, Result, Tally
from tree import ROOT
from watched import QUICK_LIMITS, THOROUGH_LIMITS

# Under the thread sanitizer the quick suites of these folders run: the ones with threads in them.
TSAN_FOLDERS = {"base", "tensor", "memory", "frame", "program", "link", "rank", "mesh",
                "mesh_allocations", "mesh_random_programs", "mesh_stress"}

SANITIZER_ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1:check_initialization_order=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


class Session:
    """One call of ./dev test."""

    def __init__(self, thorough: bool, filter_: str) -> None:
        self._thorough = thorough
        self._filter = filter_
        self._limits = THOROUGH_LIMITS if thorough else QUICK_LIMITS
        self._tally = Tally()

    def run(self) -> int:
        print("== checks", flush=True)
        self._run_checks()
        if self._build("release"):
            self._run_python_tests()
            self._run_programs("release")
        if self._thorough:
            for preset in ("asan", "tsan"):
                if self._build(preset):
                    self._run_programs(preset)
                    if preset == "asan":
                        self._run_fuzzers(preset)
        return self._tally.close()

    def _run_checks(self) -> None:
        kinds = {check.SLOW} if self._thorough else {check.CHEAP}
        for item in check.CHECKS:
            name = f"check.{item.name}"
            if item.kind in kinds and re.search(self._filter, name):
                started = time.monotonic()
                self._tally.add(name, [check.run_check(item)[0]], started)

    def _build(self, preset: str) -> bool:
        started = time.monotonic()
        status = subprocess.run(["./dev", "build", preset], cwd=ROOT, stdin=subprocess.DEVNULL).returncode
        if status != 0:
            failure = Result(f"build.{preset}", FAILED, f"./dev build {preset} exited with {status}")
            self._tally.add(f"build.{preset}", [failure], started)
            return False
        print(f"  built {preset}  ({time.monotonic() - started:.1f} s)", flush=True)
        return True

    def _run_python_tests(self) -> None:
        print("== tests of scripts and packages", flush=True)
        for path in sorted(ROOT.glob("tests/*/*_test.py")):
            started = time.monotonic()
            log = ROOT / "build/release/test-logs" / f"{path.parent.name}-{path.stem}.log"
            results = python_tests.run_file(
                path, self._thorough, self._filter, log, self._environment("release"), self._limits)
            if results:
                self._tally.add(f"{path.parent.name}/{path.stem}", results, started)

    def _run_programs(self, preset: str) -> None:
        print(f"== tests of the {preset} build", flush=True)
        for name, binary in sorted(registered_programs(preset).items()):
            started = time.monotonic()
            prefix = name if preset == "release" else f"{preset}/{name}"

            def wanted(suite: str, case: str) -> bool:
                return (self._wants_suite(preset, name, suite)
                        and re.search(self._filter, f"{prefix}.{suite}.{case}") is not None)

            log = ROOT / "build" / preset / "test-logs" / f"{name}.log"
            results = gtest_program.run_program(
                binary, prefix, wanted, log, self._environment(preset), self._limits)
            if results:
                self._tally.add(f"{preset}/{name}", results, started)

    def _run_fuzzers(self, preset: str) -> None:
        for name in fuzzers.names(ROOT):
            if re.search(self._filter, f"fuzz.{name}"):
                started = time.monotonic()
                result = fuzzers.run_fuzzer(ROOT, ROOT / "build" / preset, name, self._environment(preset))
                self._tally.add(f"fuzz/{name}", [result], started)

    def _wants_suite(self, preset: str, program: str, suite: str) -> bool:
        thorough_suite = gtest_program.is_thorough(suite)
        if preset == "release":
            return thorough_suite == self._thorough
        if any(part.startswith("ThoroughRelease") for part in suite.split("/")):
            return False
        return thorough_suite or preset == "asan" or program in TSAN_FOLDERS

    def _environment(self, preset: str) -> dict[str, str]:
        environment = {"RANKCAST_TEST_BUILD": str(ROOT / "build" / preset)}
        if self._thorough:
            environment["RANKCAST_TEST_THOROUGH"] = "1"
        if preset in ("asan", "tsan"):
            environment.update(SANITIZER_ENVIRONMENT)
        return environment


def registered_programs(preset: str) -> dict[str, pathlib.Path]:
    """The GoogleTest programs that the build tree names; a program left behind is not among them."""
    listing = subprocess.run(
        ["ctest", "--test-dir", f"build/{preset}", "--show-only=json-v1"],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
    ).stdout
    return {test["name"]: pathlib.Path(test["command"][0]) for test in json.loads(listing)["tests"]}


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev test")
    parser.add_argument("--thorough", action="store_true", help="what the quick run leaves out")
    parser.add_argument("--filter", default="", metavar="REGEX", help="only names in which this occurs")
    arguments = parser.parse_args()
    try:
        re.compile(arguments.filter)
    except re.error as error:
        parser.error(f"--filter {arguments.filter}: {error}")
    return Session(arguments.thorough, arguments.filter).run()


if __name__ == "__main__":
    sys.exit(main())
