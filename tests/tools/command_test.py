"""The command `rankcast` as a user starts it: what it prints where, and how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import select
import signal
import struct
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("RANKCAST_TEST_BUILD", ROOT / "build/release"))
COMMAND = BUILD / "bin/rankcast"
HANG_LIMIT_S = 240
SMALL = ("--devices", "cpu:0-1", "--rounds", "5", "--tensor-args", "4")


def run(*arguments: str, cwd: str | None = None,
        env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *arguments], cwd=cwd, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=HANG_LIMIT_S)


def dispatch(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run("bench", "dispatch", *arguments)


class CommandCase(unittest.TestCase):
    def expect_error(self, status: int, words: tuple[str, ...], ended: subprocess.CompletedProcess[str]) -> None:
        self.assertEqual(ended.returncode, status, ended.stderr)
        self.assertEqual(ended.stdout, "")
        self.assertRegex(ended.stderr, r"\Arankcast: [^\n]+\n\Z")
        for word in words:
            self.assertIn(word, ended.stderr)


def children_of(process: subprocess.Popen[str]) -> dict[int, str]:
    """The command line of each process that this one has started and that has not ended."""
    found = {}
    for task in pathlib.Path(f"/proc/{process.pid}/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended since
            for pid in task.read_text().split():
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                found[int(pid)] = words.replace(b"\0", b" ").decode()
    return found


class TestUsage(CommandCase):
    def test_version(self) -> None:
        ended = run("--version")
        self.assertEqual(ended.returncode, 0)
        self.assertRegex(ended.stdout, r"\Arankcast \d+\.\d+\.\d+\n\Z")

    def test_help_of_every_command(self) -> None:
        for words in ([], ["info"], ["doctor"], ["bench"], ["bench", "dispatch"]):
            ended = run(*words, "--help")
            self.assertEqual(ended.returncode, 0)
            self.assertIn("Usage", ended.stdout)
            self.assertEqual(ended.stderr, "")

    def test_the_rank_of_a_reference_is_no_command_of_a_user(self) -> None:
        self.assertNotIn("reference-rank", run("--help").stdout)
        self.expect_error(2, ("reference-rank", "by hand"), run("reference-rank"))

    def test_wrong_words_are_usage_errors(self) -> None:
        for words, said in (
            ([], "info, doctor or bench"),
            (["bench"], "dispatch"),
            (["docter"], "docter"),
            (["doctor", "now"], "now"),
            (["bench", "replay"], "replay"),
            (["bench", "dispatch", "--no-such-option"], "--no-such-option"),
            (["bench", "dispatch", "--rounds"], "--rounds"),
            (["bench", "dispatch", "--rounds", "many"], "many"),
            (["bench", "dispatch", "--rounds", "1e3"], "1e3"),
            (["bench", "dispatch", "--rounds", "99999999999999999999"], "--rounds"),
        ):
            with self.subTest(words=words):
                self.expect_error(2, (said,), run(*words))

    def test_bad_values_say_what_is_accepted(self) -> None:
        for words, said in (
            (["--rounds", "0"], ("--rounds", "1")),
            (["--rounds", "-5"], ("--rounds", "-5")),
            (["--tensor-args", "1"], ("--tensor-args", "2")),
            (["--gap-us", "-1"], ("--gap-us", "-1")),
            (["--mode", "bound"], ("bound", "orchestrated")),
            (["--between", "lunch"], ("lunch", "rotate")),
            (["--link", "pigeon"], ("--link", "pigeon", "thread, process")),
            (["--link", "thread,pigeon"], ("--link", "pigeon", "thread, process")),
            (["--link", "process,process"], ("--link", "process twice", "thread, process")),
            (["--link", ""], ("--link", "thread, process")),
            (["--devices", "tpu:0"], ("tpu", "cpu", "null")),
            (["--devices", "cpu:0,cpu:0"], ("cpu:0",)),
            (["--devices", ""], ("device",)),
            (["--live-buffers", "-1"], ("--live-buffers", "-1")),
            (["--live-buffers", "7", *SMALL], ("--live-buffers", "8")),
            (["--timeout-s", "0"], ("--timeout-s",)),
            (["--timeout-s", "nan"], ("--timeout-s",)),
            (["--safetensors", ""], ("--safetensors",)),
            (["--json", ""], ("--json",)),
            (["--safetensors", "missing.safetensors"], ("missing.safetensors",)),
            (["--safetensors", "x", "--tensor-args", "3"], ("--tensor-args",)),
            (["--safetensors", "x", "--live-buffers", "3"], ("--live-buffers",)),
        ):
            with self.subTest(words=words):
                self.expect_error(2, said, dispatch(*words))


class TestDispatch(CommandCase):
    def test_the_table_goes_to_stdout(self) -> None:
        ended = dispatch(*SMALL)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(ended.stderr, "")
        self.assertIn("2 ranks x 4 tensors", ended.stdout)
        self.assertIn("every result verified", ended.stdout)
        self.assertIn("rankcast bench dispatch " + " ".join(SMALL), ended.stdout)

    def test_json_on_stdout_is_all_that_is_there(self) -> None:
        ended = dispatch(*SMALL, "--json", "-")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        report = json.loads(ended.stdout)
        self.assertEqual(report["schema"], "rankcast.bench.dispatch/1")
        self.assertEqual((report["ranks"], report["tensor_args"], report["rounds"]), (2, 4, 5))
        self.assertIs(report["verified"], True)
        self.assertEqual(report["counters"]["allocations"], 0)
        self.assertIn("every result verified", ended.stderr)

    def test_json_into_a_file_leaves_the_table_on_stdout(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "report.json"
            ended = dispatch(*SMALL, "--json", str(path))
            self.assertEqual(ended.returncode, 0, ended.stderr)
            self.assertIn("every result verified", ended.stdout)
            self.assertIs(json.loads(path.read_text())["verified"], True)
            self.assertEqual(os.listdir(folder), ["report.json"])

    def test_a_path_that_cannot_be_written_is_refused_before_anything_runs(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            missing = str(pathlib.Path(folder) / "no" / "report.json")
            self.expect_error(2, (missing,), dispatch("--rounds", "10000000", "--json", missing))
            self.expect_error(2, (folder,), dispatch("--rounds", "10000000", "--json", folder))
            self.assertEqual(os.listdir(folder), [])

    def test_a_failed_run_leaves_no_report(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder) / "report.json")
            self.expect_error(2, ("tpu",), dispatch("--devices", "tpu:0", "--json", path))
            self.assertEqual(os.listdir(folder), [])

    def test_live_buffers_change_no_counter(self) -> None:
        ended = dispatch(*SMALL, "--live-buffers", "2000", "--json", "-")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        report = json.loads(ended.stdout)
        self.assertEqual(report["live_buffers"]["count"], 2000)
        self.assertEqual(report["live_buffers"]["minimum"]["count"], 8)
        self.assertEqual(report["counters"]["table_visits"],
                         report["live_buffers"]["minimum"]["counters"]["table_visits"])
        self.assertGreater(report["ratio"]["live_buffers_submit"], 0)

    def test_both_links_in_one_command(self) -> None:
        ended = dispatch(*SMALL, "--link", "thread,process", "--json", "-")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        report = json.loads(ended.stdout)
        self.assertEqual((report["link"], list(report["links"])), ("thread,process", ["thread", "process"]))
        for name, link in report["links"].items():
            self.assertEqual(link["reference"]["ranks"], name)
            self.assertIs(link["verified"], True)
            self.assertEqual(link["counters"]["allocations"], 0)
            self.assertGreater(link["ratio"]["submit"], 0)
        self.assertEqual(list(report["ratio"]["process_over_thread"]), ["submit", "total"])
        self.assertGreater(report["ratio"]["process_over_thread"]["total"], 0)
        self.assertIn("mesh of link process / mesh of link thread", ended.stderr)

    def test_process_ranks_alone_have_the_form_of_any_link(self) -> None:
        ended = dispatch(*SMALL, "--link", "process", "--json", "-")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        report = json.loads(ended.stdout)
        self.assertIs(report["verified"], True)
        self.assertEqual((report["link"], report["reference"]["ranks"]), ("process", "process"))
        self.assertNotIn("links", report)
        self.assertNotIn("process_over_thread", report["ratio"])

    def test_null_devices_are_not_verified(self) -> None:
        ended = dispatch("--devices", "null:0-1", "--rounds", "5", "--tensor-args", "4", "--json", "-")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIsNone(json.loads(ended.stdout)["verified"])

    def test_a_gap_before_each_round(self) -> None:
        ended = dispatch(*SMALL, "--gap-us", "1000", "--json", "-")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIs(json.loads(ended.stdout)["verified"], True)

    def test_a_round_that_does_not_end_is_exit_code_4(self) -> None:
        ended = dispatch("--devices", "null:0?delay_us=300000", "--rounds", "1", "--tensor-args", "2",
                         "--timeout-s", "0.001")
        self.expect_error(4, ("0.001 s",), ended)

    def test_an_interrupt_ends_it_and_leaves_no_report(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "report.json"
            running = subprocess.Popen(
                [COMMAND, "bench", "dispatch", "--devices", "cpu:0", "--tensor-args", "2", "--rounds", "10000000",
                 "--json", path],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            try:
                # The report's temporary file appears after everything typed was found good.
                while not os.listdir(folder):
                    self.assertIsNone(running.poll())
                running.send_signal(signal.SIGINT)
                out, error = running.communicate(timeout=HANG_LIMIT_S)
            finally:
                running.kill()
            self.assertEqual((running.returncode, out, error), (130, "", "rankcast: interrupted\n"))
            self.assertEqual(os.listdir(folder), [])


class TestProcesses(CommandCase):
    """What ends the command ends the processes of its ranks, those of the mesh and of the reference."""

    RANKS = 3

    def end(self, signals: tuple[signal.Signals, ...]) -> subprocess.Popen[str]:
        running = subprocess.Popen(
            [COMMAND, "bench", "dispatch", "--devices", f"cpu:0-{self.RANKS - 1}", "--tensor-args", "4",
             "--rounds", "10000000", "--link", "thread,process"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(running.stdout.close)
        self.addCleanup(running.stderr.close)
        self.addCleanup(running.wait)
        self.addCleanup(running.kill)
        watched = self.watch_all(running)
        for number in signals:
            running.send_signal(number)
        running.send_signal(signal.SIGCONT)
        running.wait(timeout=HANG_LIMIT_S)
        for pidfd in watched:
            ended, _, _ = select.select([pidfd], [], [], HANG_LIMIT_S)
            self.assertEqual(ended, [pidfd], "a rank outlives the command")
        return running

    def ranks_of(self, running: subprocess.Popen[str]) -> list[int]:
        """All its processes at a moment when none of them is missing, else none."""
        children = children_of(running)
        ranks = [pid for pid, words in children.items() if "rankcast-rank" in words]
        references = [pid for pid, words in children.items() if "reference-rank" in words]
        return ranks + references if (len(ranks), len(references)) == (self.RANKS, self.RANKS) else []

    def watch_all(self, running: subprocess.Popen[str]) -> list[int]:
        """Stops the command when it has all its processes, and opens a pidfd of each."""
        while True:
            self.assertIsNone(running.poll())
            if not self.ranks_of(running):
                continue
            running.send_signal(signal.SIGSTOP)
            self.assertTrue(os.WIFSTOPPED(os.waitpid(running.pid, os.WUNTRACED)[1]))
            if ranks := self.ranks_of(running):
                watched = [os.pidfd_open(pid) for pid in ranks]
                for pidfd in watched:
                    self.addCleanup(os.close, pidfd)
                return watched
            running.send_signal(signal.SIGCONT)

    @unittest.skipUnless(os.geteuid() == 0, "only root can become another user")
    def test_another_user_cannot_open_a_segment(self) -> None:
        running = subprocess.Popen(
            [COMMAND, "bench", "dispatch", "--devices", f"cpu:0-{self.RANKS - 1}", "--tensor-args", "4",
             "--rounds", "10000000", "--link", "thread,process"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(running.wait)
        self.addCleanup(running.kill)
        self.watch_all(running)  # it stands still from here on
        segments = [str(fd) for pid in [running.pid, *self.ranks_of(running)]
                    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir() if "memfd" in os.readlink(fd)]
        self.assertGreater(len(segments), self.RANKS)
        nobody = 65534
        ended = subprocess.run(["head", "-c", "1", *segments], user=nobody, group=nobody, extra_groups=[],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(ended.stdout, "")
        self.assertEqual(ended.stderr.count("Permission denied"), len(segments), ended.stderr)

    def test_a_killed_command_leaves_no_process(self) -> None:
        self.assertEqual(self.end((signal.SIGKILL,)).returncode, -signal.SIGKILL)

    def test_an_interrupted_command_leaves_no_process(self) -> None:
        ended = self.end((signal.SIGINT,))
        self.assertEqual((ended.returncode, ended.stderr.read()), (130, "rankcast: interrupted\n"))

    def test_a_second_signal_ends_it_at_once_and_leaves_no_process(self) -> None:
        ended = self.end((signal.SIGINT, signal.SIGTERM, signal.SIGTERM))
        self.assertIn(ended.returncode, (130, -signal.SIGTERM))


def safetensors(header: bytes, data: bytes) -> bytes:
    return struct.pack("<Q", len(header)) + header + data


class TestSafetensors(CommandCase):
    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, content: bytes) -> str:
        path = pathlib.Path(self.folder.name) / "model.safetensors"
        path.write_bytes(content)
        return str(path)

    def test_tensors_of_a_file_are_the_arguments(self) -> None:
        header = json.dumps({
            "embedding": {"dtype": "F32", "shape": [30, 7], "data_offsets": [0, 840]},
            "step": {"dtype": "I64", "shape": [], "data_offsets": [840, 848]},
            "odd": {"dtype": "U8", "shape": [3], "data_offsets": [848, 851]},
            "unaligned": {"dtype": "F16", "shape": [2, 2], "data_offsets": [851, 859]},
        }).encode()
        path = self.write(safetensors(header, bytes(i * 7 % 251 for i in range(859))))
        ended = dispatch("--devices", "cpu:0-2", "--rounds", "4", "--safetensors", path,
                         "--link", "thread,process", "--json", "-")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        report = json.loads(ended.stdout)
        self.assertEqual([link["verified"] for link in report["links"].values()], [True, True])
        self.assertEqual((report["ranks"], report["tensor_args"]), (3, 6))

    def test_malformed_files_are_named(self) -> None:
        for content in (b"", b"short", struct.pack("<Q", 1 << 60), safetensors(b"[]", b""),
                        safetensors(b"{}", b""), safetensors(b"{not json", b""),
                        safetensors(b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,8]}}', bytes(8))):
            with self.subTest(content=content):
                self.expect_error(2, ("model.safetensors",), dispatch("--safetensors", self.write(content)))


class TestInfo(CommandCase):
    def test_names_versions_devices_links_and_limits(self) -> None:
        ended = run("info")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        for pattern in (r"rankcast \d+\.\d+\.\d+", r"cpu +available", r"null +available", r"thread +available", r"process +available",
                        r"max_in_flight +8", r"kernel ABI version +1"):
            self.assertRegex(ended.stdout, pattern)

    def test_output_that_cannot_be_written_is_told(self) -> None:
        for words in (["info"], ["--version"], ["--help"]):
            with self.subTest(words=words), open("/dev/full", "w") as full:
                ended = subprocess.run([COMMAND, *words], stdin=subprocess.DEVNULL, stdout=full,
                                       stderr=subprocess.PIPE, text=True)
                self.assertEqual(ended.returncode, 3)
                self.assertIn("standard output", ended.stderr)

    def test_an_empty_list_of_devices_is_a_usage_error(self) -> None:
        self.assertEqual(run("info", "--devices", "").returncode, 2)

    def test_describes_the_ranks_of_devices(self) -> None:
        ended = run("info", "--devices", "cpu:0-1,null:0", "--json")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        facts = json.loads(ended.stdout)
        self.assertEqual([rank["device"] for rank in facts["ranks"]], ["cpu:0", "cpu:1", "null:0"])
        self.assertIn("rankcast.sum", facts["kernels"])
        self.assertEqual(facts["schema"], "rankcast.info/1")

    def test_devices_nobody_has_are_usage_errors(self) -> None:
        self.expect_error(2, ("tpu",), run("info", "--devices", "tpu:0"))

    def test_json_into_a_file(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "info.json"
            ended = run("info", "--json", str(path))
            self.assertEqual(ended.returncode, 0, ended.stderr)
            self.assertTrue(re.search("available", ended.stdout))
            self.assertTrue(all(kind["available"] for kind in json.loads(path.read_text())["devices"]))


class TestDoctor(CommandCase):
    def report(self, status: int, env: dict[str, str] | None = None) -> dict[str, dict[str, dict[str, str]]]:
        ended = run("doctor", "--json", env=env)
        self.assertEqual(ended.returncode, status, ended.stdout)
        report = json.loads(ended.stdout)
        self.assertEqual((report["schema"], report["good"]), ("rankcast.doctor/1", status == 0))
        return report

    def test_all_is_well_here(self) -> None:
        ended = run("doctor")
        self.assertEqual((ended.returncode, ended.stderr), (0, ""), ended.stdout)
        for pattern in (r"ok +rankcast +\d+\.\d+\.\d+", r"ok +kernel ABI +1", r"ok +C library +glibc 2\.",
                        r"ok +built-in kernels +\S+kernels", r"ok +their SHA-256 +[0-9a-f]{64}",
                        r"ok +rank program +\S+rankcast-rank", r"descriptors +\d+", r"ok +memfd", r"ok +seals",
                        r"affinity +\d+ of \d+", r"ok +cpu +available", r"ok +null +available",
                        r"ok +thread +2 ranks", r"ok +process +2 ranks", r"\nall is well, \d+ warnings?\n\Z"):
            self.assertRegex(ended.stdout, pattern)
        self.assertNotIn("FAILED", ended.stdout)

    def test_json_into_a_file(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "doctor.json"
            ended = run("doctor", "--json", str(path))
            self.assertEqual(ended.returncode, 0, ended.stdout)
            self.assertIn("all is well", ended.stdout)
            self.assertEqual(json.loads(path.read_text())["links"]["process"]["verdict"], "ok")
            self.expect_error(2, (folder,), run("doctor", "--json", folder))

    def test_knows_the_variables_that_the_documentation_lists(self) -> None:
        section = (ROOT / "docs/options.md").read_text().split("\n## ")[1]
        documented = re.findall(r"^\| `(RANKCAST_\w+)` \|", section, re.MULTILINE)
        self.assertGreaterEqual(len(documented), 5)
        self.assertEqual(list(self.report(0)["environment"]), documented)

    def test_names_what_nobody_reads(self) -> None:
        found = self.report(0, {"RANKCAST_RANK_BINARIES": "x"})["environment"]["RANKCAST_RANK_BINARIES"]
        self.assertEqual(found["verdict"], "warning")
        self.assertIn("RANKCAST_RANK_BINARY", found["advice"])

    def test_without_the_rank_program_link_process_fails_alone(self) -> None:
        report = self.report(3, {"RANKCAST_RANK_BINARY": "/no/such/program"})
        self.assertEqual(report["installation"]["rank program"]["verdict"], "FAILED")
        self.assertIn("/no/such/program", report["installation"]["rank program"]["found"])
        self.assertEqual(report["links"]["thread"]["verdict"], "ok")
        self.assertEqual(report["links"]["process"]["verdict"], "FAILED")
        self.assertIn("rank program", report["links"]["process"]["advice"])

    def test_without_the_kernels_no_device_can_be_used(self) -> None:
        report = self.report(3, {"RANKCAST_KERNEL_LIBRARY": "/no/such/file"})
        for group, name in (("installation", "built-in kernels"), ("devices", "cpu"), ("links", "thread")):
            self.assertEqual(report[group][name]["verdict"], "FAILED")
            self.assertIn("/no/such/file", report[group][name]["found"])
            self.assertTrue(report[group][name]["advice"])

    def test_a_rank_program_that_says_nothing_ends_in_time(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "silent"
            program.write_text("#!/bin/sh\nexec sleep 1000\n")
            program.chmod(0o755)
            report = self.report(4, {"RANKCAST_RANK_BINARY": str(program)})
            self.assertEqual(report["links"]["process"]["verdict"], "FAILED")

    def test_limits_that_are_too_tight_are_told(self) -> None:
        tight = subprocess.run(["bash", "-c", f"ulimit -n 16; ulimit -v 2000000; exec {COMMAND} doctor"],
                               stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=HANG_LIMIT_S)
        self.assertEqual(tight.returncode, 3, tight.stdout)
        self.assertRegex(tight.stdout, r"warning +descriptors +16")
        self.assertRegex(tight.stdout, r"warning +address space")
        self.assertIn("ulimit -v", tight.stdout)
        self.assertRegex(tight.stdout, r"FAILED +process ")


if __name__ == "__main__":
    unittest.main()
