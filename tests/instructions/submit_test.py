"""What one submit costs, in instructions: callgrind counts what the submitting thread executes.

A count repeats where a clock does not. It is taken as the difference of two runs with unequal
numbers of rounds, so that the first submits, which grow arenas and remember layouts, drop out.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("RANKCAST_TEST_BUILD", ROOT / "build/release"))
RANKS = 8
FEW_ROUNDS, MANY_ROUNDS = 20, 60
SUBMIT = "rankcast::Mesh::submit(*"

# Measured at 90 between 42 and 142 arguments on 8 ranks (g++ 12.2, -O3), orchestration included.
MOST_PER_ARGUMENT = 115
# Wake-ups differ by less. Looking at what else is alive would cost 44 for 50,000 buffers.
MOST_MORE_PER_ARGUMENT = 2
# Which stores a mesh finds faster is chance here, and they differ in instructions.
ENVIRONMENT = {**os.environ, "RANKCAST_STORES": "ordinary"}


@unittest.skipUnless(shutil.which("valgrind"), "valgrind is not installed")
class ThoroughSubmitTest(unittest.TestCase):
    def counted(self, rounds: int, *options: str) -> tuple[int, int]:
        """(instructions of all submits, number of submits) of one benchmark."""
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder) / "report.json"
            done = subprocess.run(
                ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out",
                 "--collect-atstart=no", f"--toggle-collect={SUBMIT}",
                 str(BUILD / "bin/rankcast"), "bench", "dispatch", "--devices", f"0-{RANKS - 1}",
                 "--rounds", str(rounds), "--timeout-s", "120", "--json", str(report), *options],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600,
                env=ENVIRONMENT)
            self.assertEqual(done.returncode, 0, done.stderr)
            collected = re.search(r"Collected : (\d+)", done.stderr)
            self.assertIsNotNone(collected, done.stderr)
            return int(collected.group(1)), json.loads(report.read_text())["dispatches"]

    def per_submit(self, *options: str) -> float:
        few, few_submits = self.counted(FEW_ROUNDS, *options)
        many, many_submits = self.counted(MANY_ROUNDS, *options)
        self.assertGreater(few, 0)
        self.assertGreater(many_submits, few_submits)
        cost = (many - few) / (many_submits - few_submits)
        print(f"{' '.join(options)}: {cost:.0f} instructions a submit")
        return cost

    def test_cost_of_an_argument(self):
        narrow = self.per_submit("--tensor-args", "42")
        wide = self.per_submit("--tensor-args", "142")
        self.assertLess((wide - narrow) / (RANKS * 100), MOST_PER_ARGUMENT)

    def test_cost_does_not_grow_with_what_else_is_alive(self):
        few = self.per_submit("--tensor-args", "142")
        many = self.per_submit("--tensor-args", "142", "--live-buffers", "50000")
        self.assertLess((many - few) / (RANKS * 142), MOST_MORE_PER_ARGUMENT,
                        f"{few:.0f} became {many:.0f}")
