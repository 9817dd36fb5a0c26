from planted import PlantedTreeTest

import check_sizes


class CheckSizesTest(PlantedTreeTest):
    def test_limit_is_the_last_good_size(self):
        report = check_sizes.report(self.plant({"src/base/a.cc": "int a;\n" * 500}))
        self.assert_clean(report)
        self.assertIn("src/base/a.cc 500", report.note)

    def test_one_line_more_is_found(self):
        self.assert_found(check_sizes.report(self.plant({"src/base/a.cc": "int a;\n" * 501})), "501 lines")

    def test_tests_are_not_the_product(self):
        self.assert_clean(check_sizes.report(self.plant({"tests/base/a_test.cc": "int a;\n" * 600})))

    def test_ten_largest_are_shown(self):
        files = {f"src/base/f{i}.h": "\n" * (i + 1) for i in range(12)}
        note = check_sizes.report(self.plant(files)).note
        self.assertIn("f11.h 12", note)
        self.assertNotIn("f1.h", note)
