"""Fuzzers of tests/fuzz: each goes through its seeds, then searches for a bounded time."""

from __future__ import annotations

import pathlib
import shutil
import tempfile

from results import FAILED, PASSED, Result
from watched import Limits, run_watched

SEARCH_S = 40
LIMITS = Limits(silent_s=200, total_s=SEARCH_S + 200)


def names(root: pathlib.Path) -> list[str]:
    return sorted(path.name.removesuffix("_fuzz.cc") for path in (root / "tests/fuzz").glob("*_fuzz.cc"))


def run_fuzzer(root: pathlib.Path, build: pathlib.Path, name: str, env: dict[str, str], search_s: int = SEARCH_S) -> Result:
    """Fails on a crash, a leak, a hang or an input that takes longer than 10 s; keeps the input."""
    logs = build / "test-logs"
    seeds = root / "tests/fuzz/corpus" / name
    dictionary = root / "tests/fuzz" / f"{name}.dict"
    with tempfile.TemporaryDirectory() as folder:
        found = pathlib.Path(folder) / "found"
        if seeds.is_dir():
            shutil.copytree(seeds, found)
        else:
            found.mkdir()
        argv = [str(build / "bin/fuzz" / name), f"-max_total_time={search_s}", "-timeout=10",
                "-print_final_stats=1", f"-artifact_prefix={logs}/fuzz-{name}-", str(found)]
        if dictionary.exists():
            argv.insert(1, f"-dict={dictionary}")
        log = logs / f"fuzz-{name}.log"
        ended = run_watched(argv, log, env, LIMITS)
    output = log.read_text(errors="replace")
    if ended.hung or ended.status != 0:
        tail = "\n".join(output.splitlines()[-60:])
        return Result(f"fuzz.{name}", FAILED, f"{ended.describe()}\n{tail}")
    return Result(f"fuzz.{name}", PASSED)
