"""How ./dev test sees programs that pass, fail, skip, crash and hang."""

import contextlib
import io
import stat
import sys
import textwrap
import time

from planted import PlantedTreeTest

import gtest_program
import python_tests
from results import FAILED, PASSED, SKIPPED, Result, Tally
from watched import Limits

LIMITS = Limits(silent_s=60, total_s=120)

# Speaks like a GoogleTest program; what it does in its second case comes from the environment.
FAKE_PROGRAM = """\
#!{python}
import os, signal, sys
if "--gtest_list_tests" in sys.argv:
    print("Running main() from gtest_main.cc")
    print("Ring.\\n  Wraps\\n  Fills\\nThoroughRing/0.  # TypeParam = int\\n  AllSchedules")
    sys.exit(0)
report = next(a.split(":", 1)[1] for a in sys.argv if a.startswith("--gtest_output=xml:"))
def say(line):
    print(line, flush=True)
say("[ RUN      ] Ring.Wraps")
say("[       OK ] Ring.Wraps (0 ms)")
say("[ RUN      ] Ring.Fills")
say("ring.cc:3: about to act")
action = os.environ["ACTION"]
if action == "crash": os.abort()
if action == "hang": signal.pause()
failure = '<failure message="x"/>' if action == "fail" else ""
skipped = '<skipped message="ring.cc:9&#x0A;no such device"/>' if action == "skip" else ""
say("[  FAILED  ] Ring.Fills (0 ms)" if failure else "[       OK ] Ring.Fills (0 ms)")
open(report, "w").write(f'''<testsuites><testsuite name="Ring">
<testcase name="Wraps" status="run" result="completed"/>
<testcase name="Fills" status="run" result="completed">{{failure}}{{skipped}}</testcase>
<testcase name="Other" status="notrun" result="suppressed"/>
</testsuite></testsuites>''')
sys.exit(1 if failure or action == "exit" else 0)
"""


class GtestProgramTest(PlantedTreeTest):
    def run_action(self, action: str, limits: Limits = LIMITS) -> dict[str, Result]:
        self.plant({"program": FAKE_PROGRAM.format(python=sys.executable)})
        program = self.root / "program"
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        results = gtest_program.run_program(
            program, "base", lambda suite, case: not gtest_program.is_thorough(suite),
            self.root / "logs/base.log", {"ACTION": action}, limits)
        return {result.name: result for result in results}

    def test_pass(self):
        results = self.run_action("pass")
        self.assertEqual({name: result.outcome for name, result in results.items()},
                         {"base.Ring.Wraps": PASSED, "base.Ring.Fills": PASSED})

    def test_only_the_wanted_cases_are_asked_for(self):
        self.run_action("pass")
        self.assertEqual((self.root / "logs/base.flags").read_text(), "--gtest_filter=Ring.Wraps:Ring.Fills\n")

    def test_fail_shows_what_the_case_printed(self):
        failed = self.run_action("fail")["base.Ring.Fills"]
        self.assertEqual(failed.outcome, FAILED)
        self.assertIn("about to act", failed.detail)
        self.assertNotIn("Ring.Wraps", failed.detail)

    def test_skip_gives_the_reason(self):
        self.assertEqual(self.run_action("skip")["base.Ring.Fills"], Result("base.Ring.Fills", SKIPPED, "no such device"))

    def test_crash_names_the_case(self):
        results = self.run_action("crash")
        self.assertEqual(results["base.Ring.Wraps"].outcome, PASSED)
        self.assertEqual(results["base.Ring.Fills"].outcome, FAILED)
        self.assertIn("SIGABRT; last case started: Ring.Fills", results["base.Ring.Fills"].detail)

    def test_hang_is_ended_and_names_the_case(self):
        results = self.run_action("hang", Limits(silent_s=1, total_s=60))
        self.assertEqual(results["base.Ring.Fills"].outcome, FAILED)
        self.assertIn("hung: no output for 1 s", results["base.Ring.Fills"].detail)
        self.assertIn("last case started: Ring.Fills", results["base.Ring.Fills"].detail)

    def test_bad_exit_after_good_cases(self):
        self.assertEqual(self.run_action("exit")["base.exit"].outcome, FAILED)

    def test_program_that_cannot_start(self):
        results = gtest_program.run_program(
            self.root / "absent", "base", lambda suite, case: True, self.root / "log", {}, LIMITS)
        self.assertEqual([result.outcome for result in results], [FAILED])

    def test_thorough_suites(self):
        for suite in ("ThoroughRing", "ThoroughRing/0", "All/ThoroughRing/2", "All/ThoroughRing"):
            self.assertTrue(gtest_program.is_thorough(suite))
        self.assertFalse(gtest_program.is_thorough("RingThorough"))


class PythonTestsTest(PlantedTreeTest):
    FILE = textwrap.dedent("""
        import os, unittest
        class Small(unittest.TestCase):
            def test_good(self): pass
            def test_bad(self): self.assertEqual(1, 2)
            @unittest.skip("no compiler")
            def test_left_out(self): pass
        class ThoroughSmall(unittest.TestCase):
            def test_long(self): self.assertEqual(os.environ["ANSWER"], "42")
    """)

    def outcomes(self, text: str, thorough: bool, filter_: str = "") -> dict[str, str]:
        self.plant({"scripts/small_test.py": text})
        results = python_tests.run_file(
            self.root / "scripts/small_test.py", thorough, filter_, self.root / "log", {"ANSWER": "42"}, LIMITS)
        return {result.name: result.outcome for result in results}

    def test_each_case_counts(self):
        self.assertEqual(self.outcomes(self.FILE, thorough=False),
                         {"scripts.Small.test_good": PASSED, "scripts.Small.test_bad": FAILED,
                          "scripts.Small.test_left_out": SKIPPED})

    def test_thorough_classes_are_apart(self):
        self.assertEqual(self.outcomes(self.FILE, thorough=True), {"scripts.ThoroughSmall.test_long": PASSED})

    def test_filter(self):
        self.assertEqual(self.outcomes(self.FILE, False, "good"), {"scripts.Small.test_good": PASSED})

    def test_file_that_cannot_be_loaded(self):
        self.assertEqual(self.outcomes("import nothing_of_this_name", False), {"scripts.exit": FAILED})

    def test_file_that_ends_itself(self):
        text = self.FILE.replace("self.assertEqual(1, 2)", "os._exit(0)")
        self.assertIn("scripts.exit", self.outcomes(text, False))


class TallyTest(PlantedTreeTest):
    def close(self, *outcomes: str) -> tuple[int, str]:
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            tally = Tally()
            tally.add("group", [Result(f"case{i}", outcome, "why") for i, outcome in enumerate(outcomes)], time.monotonic())
            status = tally.close()
        return status, output.getvalue().splitlines()[-1]

    def test_closing_line_and_status(self):
        self.assertEqual(self.close(PASSED, PASSED), (0, "2 passed, 0 failed, 0 skipped"))
        self.assertEqual(self.close(PASSED, FAILED, SKIPPED), (1, "1 passed, 1 failed, 1 skipped"))
        self.assertEqual(self.close(), (2, "0 passed, 0 failed, 0 skipped"))
        self.assertEqual(self.close(SKIPPED), (2, "0 passed, 0 failed, 1 skipped"))
