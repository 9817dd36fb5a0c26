"""Which folder may include which: the table that src/README.md shows, and that no folders or files
include each other in a circle."""

from __future__ import annotations

import pathlib
import re
import sys
from pathlib import PurePosixPath

import tree
from results import Report

PUBLIC = "include/rankcast"

# Folder -> what it may include beside itself. `COMMON` is part of every row that names it.
COMMON = {PUBLIC, "src/base", "src/trace"}
ALLOWED: dict[str, set[str]] = {
    PUBLIC: set(),
    "src/base": {PUBLIC},
    "src/trace": {PUBLIC, "src/base"},
    "src/tensor": COMMON,
    "src/memory": COMMON | {"src/tensor"},
    "src/frame": COMMON | {"src/tensor"},
    "src/graph": COMMON | {"src/frame", "src/tensor"},
    "src/program": COMMON | {"src/graph", "src/frame", "src/memory", "src/tensor"},
    "src/link": COMMON,
    "src/device": COMMON | {"src/tensor"},
    "src/rank": COMMON | {"src/device", "src/link", "src/graph", "src/frame", "src/tensor"},
    "src/kernels": {PUBLIC},
    "src/mesh": COMMON | {"src/rank", "src/link", "src/program", "src/graph", "src/frame",
                          "src/memory", "src/tensor"},
    "src/model": {PUBLIC},
    # The reference that the benchmarks run beside the product may use what is below a mesh.
    "bench/lib": {PUBLIC, "src/base", "src/link"},
    "tools/rankcast": {PUBLIC, "bench/lib", "src/base"},
    "tools/rankcast-rank": {PUBLIC, "src/rank", "src/link"},
    "examples": {PUBLIC},
    "python": {PUBLIC},
}
# Tests look anywhere in the product; nothing looks into tests.
UNBOUND = ("tests",)

# Where an include path starts.
INCLUDE_ROOTS = ("include", "src", "", "tests")
# Users compile the public headers without the libraries that Rankcast itself is built with.
NOT_IN_PUBLIC_HEADERS = ("fmt/", "spdlog/", "nlohmann/", "tl/", "CLI/", "openssl/", "hwloc")

_INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.MULTILINE)


def folder_of(path: PurePosixPath) -> str:
    """The row of the table that a file belongs to."""
    if path.parts[0] in ("include", "src", "bench", "tools"):
        return "/".join(path.parts[:2])
    return path.parts[0]


def resolve(root: pathlib.Path, name: str) -> PurePosixPath | None:
    for start in INCLUDE_ROOTS:
        if (root / start / name).is_file():
            return PurePosixPath(start) / name
    return None


def report(root: pathlib.Path) -> Report:
    problems: list[str] = []
    folder_edges: dict[str, set[str]] = {}
    file_edges: dict[str, set[str]] = {}
    for path in tree.cpp_files(root, ("include", "src", "tools", "bench", "examples", "python", "tests")):
        source = folder_of(path)
        if source not in ALLOWED and source not in UNBOUND:
            problems.append(f"{path}: the folder {source} is not in the table of scripts/check_layers.py")
            continue
        for line, quoted, name in _includes(tree.read(root, path)):
            target_path = resolve(root, name)
            if target_path is None:
                if quoted:
                    problems.append(f'{path}:{line}: "{name}" is no full path from include/, src/ or the root')
                elif source == PUBLIC and name.startswith(NOT_IN_PUBLIC_HEADERS):
                    problems.append(f"{path}:{line}: a public header includes <{name}>")
                continue
            target = folder_of(target_path)
            file_edges.setdefault(str(path), set()).add(str(target_path))
            if source == target or source in UNBOUND:
                continue
            folder_edges.setdefault(source, set()).add(target)
            if target not in ALLOWED[source]:
                problems.append(f"{path}:{line}: {source} may not include {target} ({name})")
    for edges, what in ((folder_edges, "folders"), (file_edges, "files")):
        for circle in circles(edges):
            problems.append(f"{what} include each other in a circle: {' -> '.join(circle)}")
    count = sum(len(targets) for targets in folder_edges.values())
    return Report(problems, f"{count} edges between {len(folder_edges)} folders")


def _includes(text: str) -> list[tuple[int, bool, str]]:
    return [(text.count("\n", 0, match.start(1)) + 1, match.group(1) == '"', match.group(2))
            for match in _INCLUDE.finditer(text)]


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """One circle for each way back that a depth-first walk meets."""
    found, done = [], set()

    def walk(node: str, trail: list[str]) -> None:
        if node in trail:
            found.append(trail[trail.index(node):] + [node])
            return
        if node in done:
            return
        for target in sorted(edges.get(node, ())):
            walk(target, trail + [node])
        done.add(node)

    for node in sorted(edges):
        walk(node, [])
    return found


if __name__ == "__main__":
    sys.exit("\n".join(report(tree.ROOT).problems) or 0)
