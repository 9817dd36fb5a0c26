from planted import PlantedTreeTest

import check_words


class CheckWordsTest(PlantedTreeTest):
    def report(self, text: str, path: str = "src/base/a.cc"):
        return check_words.report(self.plant({path: text + "\n"}))

    def test_good_text(self):
        self.assert_clean(self.report("// A run waits; the stubborn one sleeps. See src/work/plan.h, $HOME/work/x"))

    def test_unfinished_spots(self):
        for word in ("TODO", "FIXME", "XXX", "stub", "placeholder", "Not implemented", "for now"):
            with self.subTest(word):
                self.assert_found(self.report(f"// {word}"), "unfinished", word)

    def test_path_of_one_machine(self):
        for path in ("/home/me/x", "/root/x", "/work/x"):
            with self.subTest(path):
                self.assert_found(self.report(f"see {path}", "docs/a.md"), "path of one machine")

    def test_disabled_test(self):
        self.assert_found(self.report("TEST(A, DISABLED_b) {}", "tests/a/a_test.cc"), "switched off")

    def test_sleep_in_a_test(self):
        text = "std::this_thread::sleep_for(1ms);"
        self.assert_found(self.report(text, "tests/a/a_test.cc"), "a sleep")

    def test_sleep_in_the_product(self):
        self.assert_clean(self.report("std::this_thread::sleep_for(delay);", "src/device/null.cc"))

    def test_suppression_without_a_reason(self):
        self.assert_found(self.report("int a;  // NOLINT"), "suppression")
        self.assert_found(self.report("int a;  // NOLINT(bugprone-x)"), "suppression")

    def test_suppression_with_a_reason(self):
        self.assert_clean(self.report("int a;  // NOLINT(bugprone-x): the ABI wants it"))

    def test_code_in_a_comment(self):
        self.assert_found(self.report("  // mesh.submit(a, b);"), "code in a comment")
        self.assert_found(self.report("  // count_ = 0;"), "code in a comment")
