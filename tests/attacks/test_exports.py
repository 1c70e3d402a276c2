"""What a setting, a tag or a directory is called never acts where a table is opened."""

import csv
import io

import pytest
from labrig.machine.text_table import (
    comment_text,
    format_latex,
    format_markdown,
    markdown_cell,
    spreadsheet_cell,
)
from record_package import call, make_project, train

FORMULAS = [
    '=HYPERLINK("http://evil","x")',
    "+1+cmd|' /C calc'!A0",
    "-2+3+cmd|' /C calc'!A0",
    "@SUM(1)",
    "\t=1+1",
    " =1+1",
    "\r=1+1",
    "\n=1+1",
    "\uff1d1+1",
]


@pytest.mark.parametrize("text", FORMULAS)
def test_a_text_is_no_formula(text):
    assert spreadsheet_cell(text) == f"'{text}"


@pytest.mark.parametrize(
    "value", [-1.5, 3, "-1e-3", "+2", "-inf", "", None, "a=b", "1-2", "lr", [1], True, "-"]
)
def test_numbers_and_plain_texts_stay(value):
    expected = "'-" if value == "-" else value
    assert spreadsheet_cell(value) == expected


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<img src=x onerror=alert(1)>", "&lt;img src=x onerror=alert(1)&gt;"),
        ("x|y\n| z |", r"x\|y\\n\| z \|"),
        (r"x\|y", r"x\\\|y"),
        ("[a](javascript:x)", r"\[a\](javascript:x)"),
        ("`a` *b* &lt;", r"\`a\` \*b\* &amp;lt;"),
        ("0.91 ± 0.02", "0.91 ± 0.02"),
        ("batch_size", "batch_size"),
    ],
)
def test_a_cell_of_markdown_is_text(text, shown):
    assert markdown_cell(text) == shown
    assert f"| {shown} |" in format_markdown([text], [[text]])


def test_a_cell_of_latex_is_no_argument_of_the_line_before():
    table = format_latex(["a"], [["[5cm]"], ["*"], [r"\input{/etc/passwd}"], ["a%b\n\\end{x}"]])
    assert "{}[5cm]" in table
    assert "{}*" in table
    assert r"\textbackslash{}input\{/etc/passwd\}" in table
    harmless = format_latex(["a"], [["b"]] * 4)
    assert len(table.splitlines()) == len(harmless.splitlines())


def test_a_comment_does_not_end_early():
    assert comment_text("x-->\n<script>") == "x- ->\\n<script>"


@pytest.fixture
def own(tmp_path):
    """A project with two runs that differ in a setting that somebody chose badly."""
    project = make_project(tmp_path / "project")
    for text in ('=HYPERLINK("http://evil")', "</td><img src=x onerror=alert(1)>|x"):
        settings = f"seed: 0\nname: '{text}'\n"
        train(project, config_yaml=settings, metrics={"test/acc": 0.5, "=1": -1.0})
    return project


def test_the_files_of_export_hold_no_formula_and_no_html(own, capsys):
    """e-csv, e-md."""
    for ending in ("csv", "md", "tex"):
        call(own, "runs export", "-o", f"{own.root}/x.{ending}", "--metric", "test/acc,=1")
    cells = [
        cell for row in csv.reader((own.root / "x.csv").read_text().splitlines()) for cell in row
    ]
    assert '\'=HYPERLINK("http://evil")' in cells
    assert "-1.0" in cells
    assert not [cell for cell in cells if cell.startswith(("=", "+", "@"))]
    text = (own.root / "x.md").read_text()
    assert "<img" not in text
    assert r"onerror=alert(1)&gt;\|x |" in text
    capsys.readouterr()
    call(own, "runs list", "--csv")
    cells = [cell for row in csv.reader(io.StringIO(capsys.readouterr().out)) for cell in row]
    assert "'=1" in cells
    assert "-1.0" in cells
    assert not [cell for cell in cells if cell.startswith("=")]
