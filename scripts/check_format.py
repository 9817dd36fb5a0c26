"""The C++ sources are as clang-format leaves them; --fix formats them in place."""

from __future__ import annotations

import collections
import pathlib
import re
import subprocess
import sys

import tree
from results import Report

TOOL = "clang-format-19"
FOLDERS = ("include", "src", "tools", "bench", "examples", "python", "tests")


def report(root: pathlib.Path) -> Report:
    names = [str(path) for path in tree.cpp_files(root, FOLDERS)]
    if not names:
        return Report([], "0 files")
    checked = subprocess.run([TOOL, "--dry-run", "-Werror", *names], cwd=root, capture_output=True, text=True)
    places = collections.Counter(re.findall(r"^(\S+?):\d+:\d+: error", checked.stderr, re.MULTILINE))
    problems = [f"{name}: {count} places; ./dev fmt formats them" for name, count in sorted(places.items())]
    if checked.returncode and not problems:
        problems = checked.stderr.splitlines()[-5:]
    return Report(problems, f"{len(names)} files")


def fix(root: pathlib.Path) -> int:
    names = [str(path) for path in tree.cpp_files(root, FOLDERS)]
    return subprocess.run([TOOL, "-i", *names], cwd=root).returncode if names else 0


if __name__ == "__main__":
    if "--fix" in sys.argv[1:]:
        sys.exit(fix(tree.ROOT))
    sys.exit("\n".join(report(tree.ROOT).problems) or 0)
