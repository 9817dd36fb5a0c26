"""Python test files: run one of them in a process of its own and collect what each case came to.

As a script it is that process: python_tests.py FILE REPORT MODE [REGEX].
"""

from __future__ import annotations

import importlib.util
import json
import pathlib
import re
import sys
import unittest

from gtest_program import is_thorough
from results import FAILED, PASSED, SKIPPED, Result
from watched import Limits, run_watched


def run_file(
    path: pathlib.Path, thorough: bool, filter_: str, log: pathlib.Path, env: dict[str, str], limits: Limits
) -> list[Result]:
    """Runs the cases of one file; classes named `Thorough...` only, or all others."""
    report = log.with_suffix(".json")
    report.unlink(missing_ok=True)
    mode = "thorough" if thorough else "quick"
    argv = [sys.executable, "-B", __file__, str(path), str(report), mode, filter_]
    ended = run_watched(argv, log, env, limits)
    output = log.read_text(errors="replace")
    written = json.loads(report.read_text()) if report.exists() else {"done": False, "results": []}
    results = [Result(*entry) for entry in written["results"]]
    if ended.hung or ended.status != 0 or not written["done"]:
        tail = "\n".join(output.splitlines()[-60:])
        results.append(Result(f"{_prefix(path)}.exit", FAILED, f"{ended.describe()}\n{tail}"))
    return results


def _prefix(path: pathlib.Path) -> str:
    return path.parent.name


class _Recorder(unittest.TestResult):
    """Writes the report anew after each case, so that a killed run still shows how far it came."""

    def __init__(self, prefix: str, report: pathlib.Path) -> None:
        super().__init__()
        self._prefix, self._report = prefix, report
        self._entries: list[tuple[str, str, str]] = []

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        print(f"[ RUN      ] {_name(test)}", flush=True)

    def addSuccess(self, test: unittest.TestCase) -> None:
        self._add(test, PASSED, "")

    def addFailure(self, test, err) -> None:
        self._add(test, FAILED, self._exc_info_to_string(err, test))

    def addError(self, test, err) -> None:
        self._add(test, FAILED, self._exc_info_to_string(err, test))

    def addSkip(self, test, reason: str) -> None:
        self._add(test, SKIPPED, reason)

    def addSubTest(self, test, subtest, err) -> None:
        if err is not None:
            self._add(test, FAILED, f"{subtest}\n{self._exc_info_to_string(err, test)}")

    def _add(self, test, outcome: str, detail: str) -> None:
        self._entries.append((f"{self._prefix}.{_name(test)}", outcome, detail))
        self.write(done=False)

    def write(self, done: bool) -> None:
        self._report.write_text(json.dumps({"done": done, "results": self._entries}))


def _name(test) -> str:
    method = getattr(test, "_testMethodName", str(test))
    return f"{type(test).__name__}.{method}"


def _cases(suite: unittest.TestSuite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from _cases(item)
        else:
            yield item


def main(path: pathlib.Path, report: pathlib.Path, mode: str, filter_: str) -> None:
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    chosen = unittest.TestSuite()
    for case in _cases(unittest.defaultTestLoader.loadTestsFromModule(module)):
        if is_thorough(type(case).__name__) != (mode == "thorough"):
            continue
        if re.search(filter_, f"{_prefix(path)}.{_name(case)}"):
            chosen.addTest(case)
    recorder = _Recorder(_prefix(path), report)
    chosen.run(recorder)
    recorder.write(done=True)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3], (sys.argv + [""])[4])
