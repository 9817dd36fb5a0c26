"""Words and paths that a finished product does not carry, and suppressions without a reason."""

from __future__ import annotations

import pathlib
import re
import sys
from pathlib import PurePosixPath

import tree
from results import Report

# These two name the words in order to find them.
EXEMPT = {PurePosixPath("scripts/check_words.py"), PurePosixPath("tests/scripts/check_words_test.py"),
          PurePosixPath("LICENSE")}

RULES = [
    (re.compile(r"\b(TODO|FIXME|XXX|HACK)\b"), "an unfinished spot"),
    (re.compile(r"\b(stub|stubbed|placeholder|not implemented|for now)\b", re.IGNORECASE), "an unfinished spot"),
    (re.compile(r"(?<![\w.$}])/(home|root|work|mnt|Users)/\w"), "a path of one machine"),
    (re.compile(r"\bDISABLED_\w"), "a test that is switched off"),
    (re.compile(r"\b(sleep_for|sleep_until|usleep|time\.sleep)\b"), "a sleep"),
    (re.compile(r"\bNOLINT(NEXTLINE)?\b(?!\([\w.,*-]+\):? \S)"), "a suppression without its check and reason"),
    (re.compile(r"^\s*// [\w:.>\[\]-]+(\(.*\)| [-+|&]?= .*);\s*$"), "code in a comment"),
]
# Device delays and back-off loops live in the product; only tests must not wait for a clock.
ONLY_IN_TESTS = {"a sleep"}
ONLY_IN_SOURCES = {"code in a comment"}


def report(root: pathlib.Path) -> Report:
    problems, count = [], 0
    for path in tree.files(root):
        if path in EXEMPT:
            continue
        count += 1
        for number, line in enumerate(tree.read(root, path).splitlines(), 1):
            for pattern, what in RULES:
                if what in ONLY_IN_TESTS and path.parts[0] != "tests":
                    continue
                if what in ONLY_IN_SOURCES and path.suffix != ".cc":
                    continue
                match = pattern.search(line)
                if match:
                    problems.append(f"{path}:{number}: {what}: {match.group(0).strip()}")
    return Report(problems, f"{count} files")


if __name__ == "__main__":
    sys.exit("\n".join(report(tree.ROOT).problems) or 0)
