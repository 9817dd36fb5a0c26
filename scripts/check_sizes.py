"""No file of the product has more than 500 lines; the largest are shown, for size slips first."""

from __future__ import annotations

import pathlib
import sys

import tree
from results import Report

LIMIT_LINES = 500
SHOWN = 10
SUFFIXES = (".h", ".cc", ".py", ".sh")


def report(root: pathlib.Path) -> Report:
    sizes = sorted(
        ((tree.read(root, path).count("\n"), str(path)) for path in tree.files(root)
         if path.suffix in SUFFIXES and path.parts[0] in tree.PRODUCT),
        reverse=True)
    problems = [f"{path}: {lines} lines, more than {LIMIT_LINES}: which idea deserves a file of its own?"
                for lines, path in sizes if lines > LIMIT_LINES]
    largest = ", ".join(f"{path} {lines}" for lines, path in sizes[:SHOWN])
    return Report(problems, f"largest: {largest}")


if __name__ == "__main__":
    sys.exit("\n".join(report(tree.ROOT).problems) or 0)
