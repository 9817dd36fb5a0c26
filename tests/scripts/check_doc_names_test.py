from planted import PlantedTreeTest

import check_doc_names

TREE = {
    "src/mesh/mesh.cc": "void Mesh::submit() { int max_in_flight = getenv(\"RANKCAST_LOG\"); }\n",
    "tools/rankcast/main.cc": 'app.add_option("--tensor-args", n);\n',
    "dev": "#!/usr/bin/env bash\n",
}


class CheckDocNamesTest(PlantedTreeTest):
    def report(self, text: str):
        return check_doc_names.report(self.plant(TREE | {"docs/guide.md": text}))

    def test_names_that_exist(self):
        report = self.report("`Mesh::submit(program)` with `max_in_flight`, `RANKCAST_LOG`, `--tensor-args 3`,\n"
                             "`src/mesh/mesh.cc`, `mesh/`, `./dev test`, `src/*/mesh.cc`, `tools/rankcast/`\n")
        self.assert_clean(report)

    def test_words_that_are_no_code(self):
        self.assert_clean(self.report("`out`, `std::atomic_ref`, `build/release/bin/x`, `/proc/self/maps`, `a + b`\n"))

    def test_missing_member(self):
        self.assert_found(self.report("\nSee `Mesh::vanish()`.\n"), "docs/guide.md:2", "vanish")

    def test_missing_identifier(self):
        self.assert_found(self.report("`max_out_of_flight`"), "max_out_of_flight")

    def test_missing_path(self):
        self.assert_found(self.report("`src/mesh/gone.cc`"), "src/mesh/gone.cc")

    def test_missing_file_without_a_folder(self):
        self.assert_found(self.report("`gone.cc`"), "gone.cc")

    def test_missing_option(self):
        self.assert_found(self.report("`rankcast bench dispatch --no-such-option 4`"), "--no-such-option")

    def test_missing_command(self):
        self.assert_found(self.report("`./develop test`"), "develop")

    def test_capitals_stand_for_any_name(self):
        self.assert_clean(self.report("`src/mesh/NAME.cc`, `src/FOLDER/mesh.cc`"))
        self.assert_found(self.report("`src/mesh/NAME.py`"), "NAME.py")

    def test_fenced_blocks_are_not_read(self):
        self.assert_clean(self.report("```\n`Mesh::vanish()`\n```\n"))

    def test_history_may_name_what_is_gone(self):
        self.assert_clean(check_doc_names.report(self.plant(TREE | {"CHANGELOG.md": "`Mesh::vanish()`"})))
