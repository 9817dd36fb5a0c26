"""Each header compiles alone; the ones that C sees, as C too; src/base also for another processor.

A header that some source of the product includes first is proved by the build of that source; only
the others are compiled here.
"""

from __future__ import annotations

import pathlib
import re
import shutil
import sys

import tree
from compilation import run_all
from results import Report

WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Wsign-conversion", "-Werror"]
INCLUDES = ["-Iinclude", "-Isrc", "-I.", "-Itests", '-DRANKCAST_TEST_KERNELS=""']
CPP = ["-x", "c++", "-std=c++20", *WARNINGS, *INCLUDES]
C = ["-x", "c", "-std=c11", "-Wall", "-Wextra", "-Werror", "-Iinclude"]
OTHER_PROCESSOR = "aarch64-linux-gnu-g++"


def report(root: pathlib.Path) -> Report:
    headers = [path for path in tree.cpp_files(root, ("include", "src", "tools", "bench", "examples", "tests"))
               if path.suffix == ".h"]
    out = root / "build/headers"
    out.mkdir(parents=True, exist_ok=True)
    launcher = ["ccache"] if shutil.which("ccache") else []
    proved = first_includes(root)
    names, commands = [], []
    for number, header in enumerate(headers):
        if header.parts[0] == "include" and 'extern "C"' in tree.read(root, header):
            names.append(f"{header} (as C)")
            c_source = out / f"{number}.c"
            _write(c_source, f'#include "{_include_name(header)}"\n')
            commands.append(["gcc", *C, "-fsyntax-only", str(c_source)])
        if _include_name(header) in proved:
            continue
        # Not -fsyntax-only: only a real compilation is remembered by ccache.
        source = out / f"{number}.cc"
        _write(source, f'#include "{_include_name(header)}"\n')
        names.append(str(header))
        commands.append([*launcher, "g++", *CPP, "-O0", "-c", str(source), "-o", str(source.with_suffix(".o"))])
    return Report(_problems(names, run_all(commands, root)), f"{len(headers)} headers, {len(proved)} by the sources that include them first")


def first_includes(root: pathlib.Path) -> set[str]:
    """What sources of the product include before anything else. Tests come with GoogleTest's header."""
    found = set()
    for path in tree.cpp_files(root, ("src", "tools", "bench")):
        match = re.search(r'^#include (.*)$', tree.read(root, path), re.MULTILINE) if path.suffix == ".cc" else None
        if match and match.group(1).startswith('"'):
            found.add(match.group(1).split('"')[1])
    return found


def report_other_processor(root: pathlib.Path) -> Report:
    """The plain fallbacks of src/base compile: nothing of x86 is left outside their one place."""
    if not shutil.which(OTHER_PROCESSOR):
        return Report([], skipped=f"{OTHER_PROCESSOR} is not installed")
    sources = [path for path in tree.cpp_files(root, ("src",)) if path.parts[1] == "base" and path.suffix == ".cc"]
    # The host's fmt and tl-expected are headers for any processor; they come after the target's own.
    commands = [[OTHER_PROCESSOR, *CPP, "-O0", "-fsyntax-only", "-idirafter", "/usr/include", str(source)]
                for source in sources]
    return Report(_problems([str(source) for source in sources], run_all(commands, root)), f"{len(sources)} sources")


def _include_name(header) -> str:
    return "/".join(header.parts[1:]) if header.parts[0] in ("include", "src", "tests") else str(header)


def _write(path: pathlib.Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def _problems(names: list[str], outcomes) -> list[str]:
    problems = []
    for name, (status, output) in zip(names, outcomes):
        if status:
            problems.append(f"{name}: does not compile alone\n" + "\n".join(output.splitlines()[:8]))
    return problems


if __name__ == "__main__":
    sys.exit("\n".join(report(tree.ROOT).problems) or 0)
