"""A `name` in a document exists in the tree: an identifier, a path, or an option of the command."""

from __future__ import annotations

import pathlib
import re
import sys
from pathlib import PurePosixPath

import tree
from results import Report

SOURCES = (".h", ".cc", ".py", ".sh", ".cmake", ".txt", ".json", "")
# Names of others that documents speak of.
EXTERNAL = re.compile(r"^(std::|tl::|fmt::|spdlog::|CMAKE_|_GLIBCXX|__|clang|libstdc)")
# Written by a build or an installation, or found on the machine.
GENERATED = re.compile(r"^(build|lib|bin|share|dev|proc|tmp|usr|opt|sys|prefix)/|^/|^~|\$|^\w+://|[<>{}]|\.so\b")

_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_PATH = re.compile(r"^\.?[\w.*-]+(/[\w.*-]+)+/?$|^[\w-]+\.(h|cc|py|sh|md|cmake|txt|json)$|^[\w-]+/$")
_IDENTIFIER = re.compile(r"^[A-Za-z_]\w*((::|\.|->)~?[A-Za-z_]\w*)*(\(.*\))?$")
_OPTION = re.compile(r"--[a-z][a-z-]+")


def report(root: pathlib.Path) -> Report:
    everything = tree.files(root)
    known = _Known(root, everything)
    problems, count = [], 0
    for path in everything:
        if path.suffix != ".md" or path.name == "CHANGELOG.md":
            continue
        for number, line in _prose(tree.read(root, path)):
            for span in _SPAN.findall(line):
                names = code_names(span)
                count += len(names)
                problems += [f"{path}:{number}: `{span}`: {name} is nowhere in the tree"
                             for name in names if not known.has(path, name)]
    return Report(problems, f"{count} names")


def _prose(text: str) -> list[tuple[int, str]]:
    """The lines outside of fenced blocks."""
    lines, fenced = [], False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            lines.append((number, line))
    return lines


def code_names(span: str) -> list[str]:
    """What in a span of a document has to exist: none for a word that does not look like code."""
    span = span.strip()
    if " " in span and not _IDENTIFIER.match(span):
        first = span.split()[0]
        names = [first[2:]] if first.startswith("./") else []
        return names + _OPTION.findall(span)
    if _OPTION.fullmatch(span):
        return [span]
    if EXTERNAL.search(span) or GENERATED.search(span):
        return []
    if span.startswith("./"):
        return [span[2:]]
    if _PATH.match(span):
        return [span]
    if _IDENTIFIER.match(span) and re.search(r"::|\(|_", span):
        return [part for part in re.split(r"::|\.|->|~", span.split("(")[0]) if len(part) > 1]
    return []


class _Known:
    """What the tree has: paths, words of its sources, options."""

    def __init__(self, root: pathlib.Path, everything: list[PurePosixPath]) -> None:
        self._root = root
        self._words: set[str] = set()
        self._options: set[str] = set()
        for path in everything:
            if path.suffix in SOURCES and path.name != "check_doc_names_test.py":
                text = tree.read(root, path)
                self._words.update(re.findall(r"[A-Za-z_]\w*", text))
                self._options.update(_OPTION.findall(text))

    def has(self, document: PurePosixPath, name: str) -> bool:
        if name.startswith("--"):
            return name in self._options
        if "/" not in name and "." not in name:
            return name in self._words or (self._root / name).exists()
        starts = (self._root, self._root / document.parent, self._root / "include", self._root / "src")
        # A name in capitals stands for any: `build/PRESET`, `tests/FOLDER/NAME_test.py`.
        pattern = re.sub(r"(?<![A-Za-z])[A-Z]{3,}(?![A-Za-z])", "*", name.rstrip("/")) if "/" in name else name
        return any(next(start.glob(pattern), None) is not None for start in starts if start.is_dir())


if __name__ == "__main__":
    sys.exit("\n".join(report(tree.ROOT).problems) or 0)
