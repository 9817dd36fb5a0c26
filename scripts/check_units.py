"""Every unit of src/ has a test: a file of its name in tests/, or a test that includes its header,
or one that says `// tests: src/folder/unit.cc` on a line of its own."""

from __future__ import annotations

import pathlib
import re
import sys
from pathlib import PurePosixPath

import tree
from results import Report

# Tested from outside by a Python test, which has no include line to show for it.
EXEMPT = {PurePosixPath("src/base/cpu_check"): "tests/package/old_processor_test.py"}

_NAMED = re.compile(r"^// tests: (src/\S+)$", re.MULTILINE)


def report(root: pathlib.Path) -> Report:
    units = sorted({path.with_suffix("") for path in tree.cpp_files(root, ("src",))})
    tests = tree.cpp_files(root, ("tests",))
    test_names = {str(path) for path in tests}
    texts = {path: tree.read(root, path) for path in tests}
    included = {name for text in texts.values() for name in re.findall(r'#include "([^"]+)\.h"', text)}
    named = {(path, name) for path, text in texts.items() for name in _NAMED.findall(text)}
    missing = [f"{path}: names {name}, which is not there"
               for path, name in sorted(named) if not (root / name).is_file()]
    included |= {str(PurePosixPath(name).with_suffix("").relative_to("src")) for _, name in named}
    for unit in units:
        inside = unit.relative_to("src")
        if unit in EXEMPT:
            if not (root / EXEMPT[unit]).exists():
                missing.append(f"{unit}: its test {EXEMPT[unit]} is not there")
        elif f"tests/{inside}_test.cc" not in test_names and str(inside) not in included:
            missing.append(f"{unit}: no test")
    return Report(missing, f"{len(units)} units")


if __name__ == "__main__":
    sys.exit("\n".join(report(tree.ROOT).problems) or 0)
