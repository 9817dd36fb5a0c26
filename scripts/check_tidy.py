"""clang-tidy: on the files that differ from the main branch, or on all."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys

import tree
from compilation import run_all
from results import Report

TOOL = "clang-tidy-19"
DATABASE = "build/tidy"
# What a quick check may take; files left out are named, and the thorough tests see them all.
CHANGED_BUDGET_S = 30.0


def report_changed(root: pathlib.Path) -> Report:
    return _report(root, _changed(root), CHANGED_BUDGET_S)


def report_all(root: pathlib.Path) -> Report:
    configured = subprocess.run(["cmake", "--preset", "tidy"], cwd=root, capture_output=True, text=True)
    if configured.returncode:
        return Report([f"the preset tidy does not configure:\n{configured.stderr}"])
    return _report(root, None, None)


def _report(root: pathlib.Path, wanted: set[str] | None, budget_s: float | None) -> Report:
    sources = [name for name in _sources(root) if wanted is None or name in wanted]
    commands = [[TOOL, "--quiet", "-p", DATABASE, name] for name in sources]
    outcomes = run_all(commands, root, budget_s)
    problems, left_out = [], 0
    for outcome in outcomes:
        if outcome is None:
            left_out += 1
        elif outcome[0]:
            problems += findings(outcome[1], root)
    note = f"{len(sources) - left_out} of {len(sources)} files"
    if left_out:
        note += f"; {left_out} did not fit into {budget_s:.0f} s, ./dev test --thorough sees them"
    return Report(sorted(set(problems)), note)


def findings(output: str, root: pathlib.Path) -> list[str]:
    lines = [line.replace(f"{root}/", "") for line in output.splitlines()
             if re.search(r": (error|warning): ", line)]
    return lines or output.splitlines()[-5:]


def _sources(root: pathlib.Path) -> list[str]:
    database = json.loads((root / DATABASE / "compile_commands.json").read_text())
    names = {pathlib.Path(entry["directory"], entry["file"]).resolve() for entry in database}
    inside = [path.relative_to(root).as_posix() for path in names if path.is_relative_to(root)]
    return sorted(name for name in inside if not name.startswith("build/"))


def _changed(root: pathlib.Path) -> set[str]:
    """What differs from the point where this branch left origin/main, and what is not committed."""

    def git(*arguments: str) -> list[str]:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True)
        return done.stdout.split() if done.returncode == 0 else []

    base = (git("merge-base", "HEAD", "origin/main") or ["HEAD"])[0]
    return set(git("diff", "--name-only", base) + git("ls-files", "-o", "--exclude-standard"))


if __name__ == "__main__":
    chosen = report_all if "--all" in sys.argv[1:] else report_changed
    sys.exit("\n".join(chosen(tree.ROOT).problems) or 0)
