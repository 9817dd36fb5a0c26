from planted import PlantedTreeTest

import check_layers

GOOD = {
    "include/rankcast/mesh.h": "#include <vector>\n",
    "src/base/status.h": "",
    "src/tensor/shape.h": '#include "base/status.h"\n#include "rankcast/mesh.h"\n',
    "src/frame/record.h": '#include "tensor/shape.h"\n',
    "tests/frame/record_test.cc": '#include "frame/record.h"\n#include <gtest/gtest.h>\n',
    "tools/rankcast/main.cc": '#include "bench/lib/job.h"\n#include <CLI/CLI.hpp>\n',
    "bench/lib/job.h": '#include "base/status.h"\n',
}


class CheckLayersTest(PlantedTreeTest):
    def report(self, changes: dict[str, str]):
        return check_layers.report(self.plant(GOOD | changes))

    def test_good_tree_passes(self):
        self.assert_clean(self.report({}))

    def test_edge_upwards(self):
        report = self.report({"src/link/link.h": '\n#include "frame/record.h"\n'})
        self.assert_found(report, "src/link/link.h:2", "src/link may not include src/frame")

    def test_public_header_that_includes_an_internal_one(self):
        report = self.report({"include/rankcast/run.h": '#include "base/status.h"\n'})
        self.assert_found(report, "include/rankcast may not include src/base")

    def test_public_header_that_needs_a_library(self):
        self.assert_found(self.report({"include/rankcast/run.h": "#include <fmt/format.h>\n"}), "<fmt/format.h>")

    def test_product_that_includes_a_test(self):
        report = self.report({"src/link/link.h": '#include "frame/helper.h"\n', "tests/frame/helper.h": ""})
        self.assert_found(report, "src/link may not include tests")

    def test_tool_that_looks_inside(self):
        report = self.report({"tools/rankcast/info.cc": '#include "tensor/shape.h"\n'})
        self.assert_found(report, "tools/rankcast may not include src/tensor")

    def test_example_that_looks_inside_by_angle_brackets(self):
        report = self.report({"examples/a/main.cc": "#include <tensor/shape.h>\n"})
        self.assert_found(report, "examples may not include src/tensor")

    def test_include_that_is_no_full_path(self):
        report = self.report({"src/tensor/view.h": '#include "shape.h"\n'})
        self.assert_found(report, "src/tensor/view.h:1", "shape.h")

    def test_folder_that_the_table_does_not_know(self):
        self.assert_found(self.report({"src/util/misc.h": ""}), "src/util is not in the table")

    def test_files_in_a_circle(self):
        report = self.report({"src/base/a.h": '#include "base/b.h"\n', "src/base/b.h": '#include "base/a.h"\n'})
        self.assert_found(report, "circle", "src/base/a.h", "src/base/b.h")

    def test_folders_in_a_circle_are_found_whatever_the_table_says(self):
        edges = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}
        self.assertEqual(check_layers.circles(edges), [["a", "b", "c", "a"]])
        self.assertEqual(check_layers.circles({"a": {"b", "c"}, "b": {"c"}}), [])

    def test_the_table_itself_has_no_circle(self):
        edges = {folder: set(allowed) for folder, allowed in check_layers.ALLOWED.items()}
        self.assertEqual(check_layers.circles(edges), [])
