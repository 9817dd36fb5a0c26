"""Trees with planted faults, and the scripts under test on the import path."""

from __future__ import annotations

import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))


class PlantedTreeTest(unittest.TestCase):
    """A case with a tree of its own, which is gone afterwards."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def plant(self, files: dict[str, str]) -> pathlib.Path:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return self.root

    def assert_clean(self, report) -> None:
        self.assertEqual(report.problems, [])
        self.assertEqual(report.skipped, "")

    def assert_found(self, report, *words: str) -> None:
        """Exactly one problem, and it names all of these words."""
        self.assertEqual(len(report.problems), 1, report.problems)
        for word in words:
            self.assertIn(word, report.problems[0])
