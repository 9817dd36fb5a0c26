"""Memory orders: every weak operation goes through a named helper and says why it is enough.

- `std::memory_order` and fences are spelled in src/base/atomic.h alone; others call its helpers.
- A helper with acquire or release carries `// pairs: label`; a label stands at both ends. A
  sequentially consistent one may be such an end.
- A relaxed helper carries `// relaxed: reason`.
- An atomic is declared only in the folders named here, and says who writes it, who reads it, and
  what orders it.
"""

from __future__ import annotations

import collections
import pathlib
import re
import sys
from pathlib import PurePosixPath

import tree
from results import Report

HELPERS = PurePosixPath("src/base/atomic.h")
PRODUCT = ("include", "src", "tools", "bench", "examples", "python")
# The folders that share words between threads. Elsewhere use a ring, a slot map or a notifier.
ATOMIC_FOLDERS = {"src/base", "src/trace", "src/memory", "src/frame", "src/program", "src/link", "src/device",
                  "src/rank", "src/mesh", "bench/lib"}
ACQUIRES, RELEASES = {"acquire", "acq_rel", "seq_cst"}, {"release", "acq_rel", "seq_cst"}
DECLARED_BY = ("written by", "read by", "ordered by")

_CALL = re.compile(r"\b(load|store|exchange|compare_exchange|fetch_(?:add|sub|or|and))"
                   r"_(relaxed|acquire|release|acq_rel|seq_cst)\s*\(")
_RAW = re.compile(r"\bmemory_order(?:_\w+|::)|\batomic_(?:thread|signal)_fence\b")
_ATOMIC_TYPE = re.compile(r"\bstd::atomic(?:<|_\w+)|\bAtomics::Word(?:32|64)\b")
_DECLARED_NAME = re.compile(r"[\w>\]]\s+(\w+)\s*(?:\[[^\]]*\])?\s*(?:\{[^}]*\}|=[^=;]*)?;\s*$")
_NO_MEMBER = re.compile(r"^\s*(?:using|return|extern|static_assert|template|friend)\b|[&*]\s*\w+\s*(?:=|\{|;)")
_METHOD = r"\b{name}(?:\[[^\]]*\])?\s*(?:\.|->)\s*(?:load|store|exchange|fetch_\w+|compare_exchange_\w+)\s*\("
_PAIRS = re.compile(r"//[^\n]*?\bpairs: *([\w, .-]+)")
_RELAXED = re.compile(r"//[^\n]*?\brelaxed: *\S+")


def report(root: pathlib.Path) -> Report:
    problems: list[str] = []
    ends: dict[str, set[tuple[str, str]]] = collections.defaultdict(set)
    calls = 0
    texts = {path: tree.read(root, path) for path in tree.cpp_files(root, PRODUCT)}
    for path, text in texts.items():
        if path == HELPERS:
            continue
        lines, code = text.splitlines(), tree.without_comments(text).splitlines()
        atomics = []
        for number, line in enumerate(code):
            where = f"{path}:{number + 1}"
            if _RAW.search(line):
                problems.append(f"{where}: a raw memory order or fence; call a helper of {HELPERS}")
            for match in _CALL.finditer(line):
                calls += 1
                problems += _judge_call(where, match, comment_of(lines, code, number), ends)
            name = declared_atomic(line)
            if name:
                atomics.append(name)
                problems += _judge_declaration(path, where, comment_of(lines, code, number))
        for name in atomics:
            method = re.compile(_METHOD.format(name=re.escape(name)))
            for number, line in enumerate(code):
                if method.search(line):
                    problems.append(f"{path}:{number + 1}: {name} is used without a helper of {HELPERS}")
    problems += _judge_labels(ends)
    return Report(problems, f"{calls} weak operations, {len(ends)} labels")


def declared_atomic(line: str) -> str:
    """The name of the atomic object that a line of code declares; empty if it declares none."""
    if not _ATOMIC_TYPE.search(line) or _NO_MEMBER.search(line):
        return ""
    declared = _DECLARED_NAME.search(re.sub(r"alignas\([^)]*\)", "", line))
    return declared.group(1) if declared and "(" not in line[: line.index(declared.group(1))].replace("alignas(", "") else ""


def comment_of(lines: list[str], code: list[str], number: int) -> str:
    """The comments of a statement: the block right above its line, and from there to its end."""
    first = number
    while first > 0 and lines[first - 1].strip().startswith("//"):
        first -= 1
    if first == number and number > 0 and not re.search(r"[;{}]\s*$", code[number - 1]):
        first = number - 1
    last = number
    while last + 1 < len(lines) and not re.search(r"[;{}]", code[last]):
        last += 1
    return "\n".join(lines[first : last + 1])


def _judge_call(where: str, match: re.Match, comment: str, ends) -> list[str]:
    operation, order = match.groups()
    if order == "relaxed":
        if _RELAXED.search(comment):
            return []
        return [f"{where}: {match.group(0)}...) without `// relaxed: reason` on its line or the line above"]
    labels = [label.strip() for found in _PAIRS.findall(comment) for label in found.split(",")]
    labels = [label for label in labels if label]
    if not labels and order != "seq_cst":
        return [f"{where}: {match.group(0)}...) without `// pairs: label` on its line or the line above"]
    for label in labels:
        ends[label].add((where, order))
    return []


def _judge_declaration(path: PurePosixPath, where: str, comment: str) -> list[str]:
    problems = []
    if path.parts[0] != "include" and "/".join(path.parts[:2]) not in ATOMIC_FOLDERS:
        problems.append(f"{where}: an atomic in a folder that shares no words between threads")
    missing = [words for words in DECLARED_BY if words not in comment.lower()]
    if missing:
        problems.append(f"{where}: this atomic does not say {', '.join(missing)} (in a comment above or beside it)")
    return problems


def _judge_labels(ends) -> list[str]:
    problems = []
    for label, places in sorted(ends.items()):
        orders = {order for _, order in places}
        where = ", ".join(sorted(place for place, _ in places))
        if len(places) < 2:
            problems.append(f"{where}: the label `{label}` stands at one end only")
        elif not orders & ACQUIRES or not orders & RELEASES:
            problems.append(f"{where}: the label `{label}` joins no release with an acquire")
    return problems


if __name__ == "__main__":
    sys.exit("\n".join(report(tree.ROOT).problems) or 0)
