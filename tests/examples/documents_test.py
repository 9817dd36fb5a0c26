"""Programs in documents compile and run, as they stand, against the shared library; so does examples/.

A fenced block of C++ that begins with #include is a whole program, or, without a main, a kernel library that the
programs of the same document are given as their one argument. The blocks of the guide are one program in pieces.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import check_layers  # noqa: E402
BUILD = pathlib.Path(os.environ.get("RANKCAST_TEST_BUILD", ROOT / "build/release"))
SECONDS = 120  # for what takes one or two

_BLOCK = re.compile(r"^```cpp\n(#include.*?)^```$", re.MULTILINE | re.DOTALL)
_PIECE = re.compile(r"^```cpp\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MAIN = re.compile(r"^int main\(", re.MULTILINE)


def complete_blocks(document: pathlib.Path) -> tuple[list[str], list[str]]:
    """Programs and kernel libraries of a document."""
    blocks = _BLOCK.findall(document.read_text())
    programs = [block for block in blocks if _MAIN.search(block)]
    return programs, [block for block in blocks if block not in programs]


class DocumentPrograms(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def compile(self, text: str, name: str, *flags: str) -> pathlib.Path:
        source, target = self.folder / f"{name}.cc", self.folder / name
        source.write_text(text)
        command = [os.environ.get("CXX", "g++"), "-std=c++20", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/include",
                   str(source), "-o", str(target), *flags]
        self.output_of(command)
        return target

    def output_of(self, command: list[str]) -> str:
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS)
        self.assertEqual(ended.returncode, 0, f"{command}\n{ended.stdout}{ended.stderr}")
        return ended.stdout

    def run_document(self, name: str) -> list[str]:
        """What each program of the document printed."""
        programs, libraries = complete_blocks(ROOT / name)
        self.assertTrue(programs, f"{name} has no program")
        arguments = [str(self.compile(text, f"lib{i}.so", "-shared", "-fPIC")) for i, text in enumerate(libraries)]
        linked = [f"-L{BUILD}/lib", "-lrankcast", f"-Wl,-rpath,{BUILD}/lib"]
        return [self.output_of([str(self.compile(text, f"program{i}", *linked)), *arguments])
                for i, text in enumerate(programs)]

    def test_readme(self) -> None:
        text = (ROOT / "README.md").read_text()
        example = re.search(r"<!-- example: begin -->\n```cpp\n(.*?)```\n<!-- example: end -->", text, re.DOTALL)
        self.assertIsNotNone(example, "README.md has lost its markers")
        self.assertEqual(complete_blocks(ROOT / "README.md")[0], [example.group(1)])
        self.assertEqual(self.run_document("README.md"), ["3\n"])

    def test_kernels(self) -> None:
        self.run_document("docs/kernels.md")

    def test_guide(self) -> None:
        pieces = _PIECE.findall((ROOT / "docs/guide.md").read_text())
        self.assertGreater(len(pieces), 5)
        text = "#include <rankcast/rankcast.h>\nvoid guide() {\n" + "".join(pieces) + "}\n"
        self.compile(text, "guide.o", "-Wno-unused", "-c")


class Tables(unittest.TestCase):
    def test_the_include_table_is_that_of_the_check(self) -> None:
        table = (ROOT / "src/README.md").read_text().split("## Who may include whom")[1]
        shown = {}
        for folder, allowed in re.findall(r"^\| `([\w/-]+)/` \| (.*)\|$", table, re.MULTILINE):
            names = {self.row(name) for name in re.findall(r"`([\w/-]+)/`", allowed)}
            shown[self.row(folder)] = names if "alone" in allowed else names | {check_layers.PUBLIC, "src/base"}
        for folder, names in shown.items():
            self.assertEqual(names, check_layers.ALLOWED[folder] - {"src/trace", folder}, folder)
        there = {folder for folder in check_layers.ALLOWED if (ROOT / folder).is_dir()}
        self.assertEqual(there - set(shown), set(), "folders that the table does not show")

    @staticmethod
    def row(name: str) -> str:
        return name if name in check_layers.ALLOWED else f"src/{name}"


class ExamplePrograms(unittest.TestCase):
    def run_rank_sum(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run([str(BUILD / "bin/examples/rank_sum"), *arguments], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=SECONDS)

    def test_rank_sum(self) -> None:
        for devices, ranks in (("cpu:0-7", 8), ("cpu:0", 1), ("0,1,2", 3)):
            ended = self.run_rank_sum(devices)
            self.assertEqual(ended.returncode, 0, ended.stderr)
            self.assertEqual(len(re.findall(r"^rank \d+ entered", ended.stdout, re.MULTILINE)), ranks)
            self.assertIn(f"on {ranks} ranks", ended.stdout)

    def test_rank_sum_notices_that_nothing_was_computed(self) -> None:
        ended = self.run_rank_sum("null:0-1")
        self.assertEqual(ended.returncode, 1, ended.stdout)
        self.assertIn("element 0", ended.stderr)

    def test_rank_sum_tells_what_is_wrong(self) -> None:
        ended = self.run_rank_sum("gpu:0")
        self.assertEqual(ended.returncode, 3)
        self.assertIn('no kind "gpu"', ended.stderr)


if __name__ == "__main__":
    unittest.main()
