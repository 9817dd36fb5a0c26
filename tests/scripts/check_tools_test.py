"""The checks that call a compiler, a formatter or a shell."""

import pathlib
import shutil
import unittest

from planted import ROOT, PlantedTreeTest

import check
import check_format
import check_headers
import check_shell
import check_tidy

WITHOUT_TIDY = f"{check_tidy.TOOL} is not installed"


class CheckShellTest(PlantedTreeTest):
    def test_good_files(self):
        self.plant({"a.sh": "#!/bin/bash\necho a\n", "b.py": "print(1)\n"})
        (self.root / "a.sh").chmod(0o755)
        self.assert_clean(check_shell.report(self.root))

    def test_shell_that_does_not_parse(self):
        self.plant({"a": "#!/bin/bash\nif true; then\n"})
        (self.root / "a").chmod(0o755)
        self.assertIn("syntax error", "\n".join(check_shell.report(self.root).problems))

    def test_python_that_does_not_parse(self):
        self.assert_found(check_shell.report(self.plant({"b.py": "def a(:\n"})), "b.py:1")

    def test_script_that_may_not_be_executed(self):
        self.assert_found(check_shell.report(self.plant({"a.sh": "#!/bin/bash\n"})), "may not be executed")


class CheckFormatTest(PlantedTreeTest):
    def test_finds_and_fixes(self):
        self.plant({"src/base/a.h": "int  a ;\n", ".clang-format": (ROOT / ".clang-format").read_text()})
        self.assert_found(check_format.report(self.root), "src/base/a.h")
        self.assertEqual(check_format.fix(self.root), 0)
        self.assert_clean(check_format.report(self.root))
        self.assertEqual((self.root / "src/base/a.h").read_text(), "int a;\n")


class CheckHeadersTest(PlantedTreeTest):
    def test_header_that_compiles_alone(self):
        text = "#pragma once\n#include <vector>\nstd::vector<int> a();\n"
        self.assert_clean(check_headers.report(self.plant({"src/base/a.h": text})))

    def test_header_that_lacks_an_include(self):
        text = "#pragma once\nstd::vector<int> a();\n"
        self.assert_found(check_headers.report(self.plant({"src/base/a.h": text})), "src/base/a.h")

    def test_header_that_its_source_proves(self):
        self.plant({"src/base/a.h": "#pragma once\nstd::vector<int> a();\n",
                    "src/base/a.cc": '// The build finds it.\n#include "base/a.h"\n\n#include <vector>\n'})
        report = check_headers.report(self.root)
        self.assert_clean(report)
        self.assertEqual(report.note, "1 headers, 1 by the sources that include them first")

    def test_header_that_its_source_does_not_include_first(self):
        self.plant({"src/base/a.h": "#pragma once\nstd::vector<int> a();\n",
                    "src/base/a.cc": '#include <vector>\n\n#include "base/a.h"\n'})
        self.assert_found(check_headers.report(self.root), "src/base/a.h")

    def test_c_header_that_c_does_not_know(self):
        text = ('#pragma once\n#ifdef __cplusplus\nextern "C" {\n#endif\nusing A = int;\n'
                "#ifdef __cplusplus\n}\n#endif\n")
        self.assert_found(check_headers.report(self.plant({"include/rankcast/abi.h": text})), "abi.h (as C)")

    @unittest.skipUnless(shutil.which(check_headers.OTHER_PROCESSOR), "no cross compiler installed")
    def test_source_for_one_processor_only(self):
        self.plant({"src/base/a.cc": "#include <immintrin.h>\nvoid a() { _mm_sfence(); }\n"})
        self.assert_found(check_headers.report_other_processor(self.root), "src/base/a.cc")


@unittest.skipUnless(shutil.which(check_tidy.TOOL), WITHOUT_TIDY)
class CheckTidyTest(PlantedTreeTest):
    def report(self, text: str):
        self.plant({"src/base/a.cc": text, ".clang-tidy": (ROOT / ".clang-tidy").read_text(),
                    "build/tidy/compile_commands.json":
                        f'[{{"directory": "{self.root}", "file": "src/base/a.cc",'
                        f' "command": "g++ -std=c++20 -c src/base/a.cc"}}]'})
        return check_tidy._report(self.root.resolve(), None, None)

    def test_good_source(self):
        report = self.report("int twice(int number) { return 2 * number; }\n")
        self.assert_clean(report)
        self.assertEqual(report.note, "1 of 1 files")

    def test_name_against_the_rules(self):
        self.assert_found(self.report("int Twice(int number) { return 2 * number; }\n"), "Twice", "naming")

    def test_copy_in_a_loop(self):
        text = ("#include <string>\n#include <vector>\nint f(const std::vector<std::string>& all) {\n"
                "  int n = 0;\n  for (const auto one : all) n += static_cast<int>(one.size());\n  return n;\n}\n")
        self.assert_found(self.report(text), "performance-for-range-copy")

    def test_deadline_leaves_files_out_and_says_so(self):
        self.report("int a();\n")
        report = check_tidy._report(self.root.resolve(), None, -1.0)
        self.assertIn("0 of 1 files; 1 did not fit", report.note)


class CheckListTest(unittest.TestCase):
    def test_every_check_script_is_on_the_list_and_has_a_test(self):
        listed = {entry.report.__module__ for entry in check.CHECKS}
        scripts = {path.stem for path in (ROOT / "scripts").glob("check_*.py")}
        self.assertEqual(listed, scripts)
        tests = "".join(path.read_text() for path in (ROOT / "tests/scripts").glob("*_test.py"))
        for script in scripts:
            self.assertIn(f"import {script}\n", tests)

    def test_a_check_that_breaks_has_not_passed(self):
        def broken(root: pathlib.Path):
            raise ValueError("no such thing")

        result, _ = check.run_check(check.Check("broken", check.CHEAP, broken))
        self.assertEqual(result.outcome, "failed")
        self.assertIn("no such thing", result.detail)
