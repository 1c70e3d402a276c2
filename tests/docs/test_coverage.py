"""docs/coverage.md: each mark is held to what it means, and every path and test that it names is there."""

import ast
import re
from collections import Counter
from functools import cache

from projects import ROOT

PAGE = (ROOT / "docs/coverage.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^(\d+) \| ([^|]*) \| ([^|]*) \| ([^|]*) \| ?(.*)$", PAGE, re.MULTILINE)
N_ROWS = 204
MARK = re.compile(r"(tested|described|never run|history|not served)(: |; successor: )")
# They look at all pages or all job scripts, and pass when the matter of a row is gone.
SHOW_NOTHING = {
    "test_commands_of_a_page_can_be_typed",
    "test_markdown_links_lead_somewhere",
    "test_links_lead_somewhere",
    "test_a_site_asks_for_a_job_of_this_shape",
    "test_the_script_of_each_scheduler_is_the_stored_one",
    "test_python_of_a_page_runs",
    "test_there_are_five_questions_before_the_first_job",
}
# Words that many rows and tests have, whatever they are about.
COMMON = """
a all also and are both by does docs each for from has have here in into is it its labrig lab named names not of on
only or own page same served take takes test tests than that the their them they this to two what when where which
with without yaml
"""


def rows_marked(*marks):
    return [row for row in ROWS if MARK.match(row[3])[1] in marks]


@cache
def functions_in(file):
    """Name and source of each function of a file, with its decorators."""
    text = (ROOT / file).read_text(encoding="utf-8")
    lines = text.splitlines()
    found = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            found[node.name] = "\n".join(lines[first - 1 : node.end_lineno])
    return found


def named_tests(cell):
    return [name.split("::") for name in re.findall(r"`(tests/[^`]+)`", cell)]


def words_of(text):
    """What a text is about: its words without those that all have, and without a plural s."""
    words = re.findall(r"[a-z0-9]{3,}", text.lower().replace("_", " "))
    return {word.rstrip("s") for word in words} - {word.rstrip("s") for word in COMMON.split()}


def section_of(link):
    """The text below the heading that a link names."""
    file, _, anchor = link.partition("#")
    text = (ROOT / "docs" / file).read_text(encoding="utf-8")
    for heading, body in re.findall(r"^#+ (.*)$((?:\n(?!#+ ).*)*)", text, re.MULTILINE):
        if re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") == anchor:
            return body
    raise AssertionError(f"no heading: {link}")


def test_every_row_is_there_once():
    assert [int(number) for number, *_ in ROWS] == list(range(1, N_ROWS + 1))


def test_the_page_counts_its_marks():
    counted = Counter(MARK.match(row[3])[1] for row in ROWS)
    shown = dict(re.findall(r"^\*\*([\w ]+)\*\* \| .* \| (\d+)$", PAGE, re.MULTILINE))
    assert {mark: int(n) for mark, n in shown.items()} == counted
    assert f"ask for {N_ROWS} things" in PAGE


def test_a_tested_row_has_a_test_of_its_matter():
    for number, _, asks, served, shown in rows_marked("tested"):
        tests = named_tests(shown)
        proofs = [
            (file, test)
            for file, test in tests
            if test not in SHOW_NOTHING and not file.startswith("tests/gpu/")
        ]
        assert proofs, f"row {number}: a test that can fail without a GPU"
        if any(file.startswith("tests/gpu/") for file, _ in tests):
            assert re.search(r"H200|on a GPU not", served), f"row {number}: what a GPU has shown"
        matter = words_of(asks) | words_of(re.sub(r"[\w/]+/", "", MARK.sub("", served)))
        sources = {test: functions_in(file)[test] for file, test in proofs}
        told = set().union(*(words_of(f"{test} {source}") for test, source in sources.items()))
        assert matter & told, f"row {number}: no word of it is in {proofs}"
        for test, source in sources.items():
            assert re.search(r"\bassert\b|\braises\(", source), f"row {number}: {test}"


def test_a_described_row_names_a_section_that_says_so():
    for number, _, _, served, shown in rows_marked("described"):
        link = re.search(r"\]\(([\w.-]+\.md#[\w-]+)\)", served)[1]
        quoted = re.findall(r"“([^”]+)”", shown)
        assert quoted, f"row {number}: words that the section has"
        section = section_of(link)
        assert [words for words in quoted if words not in section] == [], f"row {number}"


def test_a_row_that_was_never_run_says_what_was_done_instead():
    admits = (
        r"stored|stand-in|never|nobody|no node|not tried|was run|was tried|shared|on a GPU|scaler"
    )
    for number, _, _, served, shown in rows_marked("never run"):
        assert named_tests(shown), f"row {number}: stored texts, a stand-in, or a test for a GPU"
        assert re.search(admits, served), f"row {number}: who could not run it, or what was run"


def test_a_row_that_is_not_served_says_why():
    rows = rows_marked("history", "not served")
    assert [row[0] for row in rows if len(MARK.sub("", row[3]).split()) < 2] == []


def test_a_row_names_what_exists():
    for number, _, _, served, shown in ROWS:
        for file, test in named_tests(shown):
            assert test in functions_in(file), f"row {number}: {file}::{test}"
        for path in re.findall(r"`([\w./]+/[\w./]+\.\w+)`", served):
            root = ROOT / "src" if path.startswith("labrig/") else ROOT
            assert (root / path).exists(), f"row {number}: {path}"
