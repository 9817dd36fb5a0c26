"""Shell and Python files parse, and those that start with `#!` may be executed."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import tree
from results import Report


def report(root: pathlib.Path) -> Report:
    problems, count = [], 0
    for path in tree.files(root):
        text = tree.read(root, path)
        first = text.split("\n", 1)[0]
        if path.suffix == ".py":
            problems += _python_problems(path, text)
        elif first.startswith("#!") and "sh" in first:
            problems += _shell_problems(root, path)
        else:
            continue
        count += 1
        if first.startswith("#!") and not os.access(root / path, os.X_OK):
            problems.append(f"{path}: starts with #! and may not be executed")
    return Report(problems, f"{count} files")


def _python_problems(path, text: str) -> list[str]:
    try:
        compile(text, str(path), "exec")
    except SyntaxError as error:
        return [f"{path}:{error.lineno}: {error.msg}"]
    return []


def _shell_problems(root: pathlib.Path, path) -> list[str]:
    checked = subprocess.run(["bash", "-n", str(root / path)], capture_output=True, text=True)
    return [line for line in checked.stderr.splitlines()] if checked.returncode else []


if __name__ == "__main__":
    sys.exit("\n".join(report(tree.ROOT).problems) or 0)
