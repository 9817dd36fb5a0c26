import stat

from planted import PlantedTreeTest

import fuzzers
from results import FAILED, PASSED

# Speaks as much of a libFuzzer program as the script relies on: the last word is the corpus.
FAKE_FUZZER = """#!/bin/bash
for last; do :; done
ls "$last"
grep -q crash "$last"/* && { echo "ERROR: planted"; exit 77; }
exit 0
"""


class FuzzersTest(PlantedTreeTest):
    def run_with_seed(self, seed: str):
        self.plant({"tests/fuzz/list_fuzz.cc": "", "tests/fuzz/corpus/list/one": seed,
                    "build/bin/fuzz/list": FAKE_FUZZER})
        program = self.root / "build/bin/fuzz/list"
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.assertEqual(fuzzers.names(self.root), ["list"])
        return fuzzers.run_fuzzer(self.root, self.root / "build", "list", {}, search_s=1)

    def test_good(self):
        self.assertEqual(self.run_with_seed("good").outcome, PASSED)

    def test_bad_input(self):
        result = self.run_with_seed("crash")
        self.assertEqual((result.name, result.outcome), ("fuzz.list", FAILED))
        self.assertIn("ERROR: planted", result.detail)

    def test_seeds_stay_as_they_are(self):
        self.run_with_seed("good")
        self.assertEqual((self.root / "tests/fuzz/corpus/list/one").read_text(), "good")
