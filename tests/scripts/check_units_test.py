from planted import PlantedTreeTest

import check_units


class CheckUnitsTest(PlantedTreeTest):
    def test_unit_with_a_test_of_its_name(self):
        self.assert_clean(check_units.report(self.plant({"src/base/a.cc": "", "tests/base/a_test.cc": ""})))

    def test_unit_whose_header_a_test_includes(self):
        tree = {"src/base/a.h": "", "src/base/a.cc": "", "tests/base/b_test.cc": '#include "base/a.h"\n'}
        self.assert_clean(check_units.report(self.plant(tree)))

    def test_unit_that_a_test_names(self):
        tree = {"src/link/thread.cc": "", "tests/link/all_test.cc": "// tests: src/link/thread.cc\n"}
        self.assert_clean(check_units.report(self.plant(tree)))

    def test_name_of_a_unit_that_is_gone(self):
        tree = {"tests/link/all_test.cc": "// tests: src/link/thread.cc\n"}
        self.assert_found(check_units.report(self.plant(tree)), "tests/link/all_test.cc", "src/link/thread.cc")

    def test_unit_without_a_test(self):
        tree = {"src/base/a.cc": "", "tests/mesh/a_test.cc": ""}
        self.assert_found(check_units.report(self.plant(tree)), "src/base/a", "no test")

    def test_exemption_whose_own_test_is_gone(self):
        self.assert_found(check_units.report(self.plant({"src/base/cpu_check.cc": ""})), "is not there")
