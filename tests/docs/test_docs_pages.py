"""What single pages promise: their code runs, their tables are whole, and lines of code lead to them."""

import re
import sys

import pytest
from labrig.bench.peaks import PEAKS
from projects import LIBRARY, ROOT

sys.path.append(str(ROOT / "hooks"))
import site_tables
import terminal_picture

FOLDER = ROOT / "docs"
# One question each. The older pages are references, and longer
SHORT = (
    *("cite", "clusters", "coming-from", "command-line", "debugging", "faster", "memory"),
    *("multi-gpu", "notebooks", "own-code", "own-data", "parallelism", "problems"),
    *("shared-server", "storage", "untested"),
)


def text_of(name):
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SHORT)
def test_a_page_answers_one_question(name):
    lines = text_of(name).splitlines()
    assert len(lines) <= 80
    assert lines[0].startswith("# ")
    assert lines[0].endswith(("?", "…")), "the heading is the question"


@pytest.mark.parametrize("name", ["own-data", "own-code"])
def test_python_of_a_page_runs(name):
    blocks = re.findall(r"^```python\n(.*?)^```$", text_of(name), re.DOTALL | re.MULTILINE)
    names = {}
    for block in blocks:
        exec(block, names)
    made = {"own-data": "Pets", "own-code": "Smooth"}[name]
    assert names[made].__doc__


def test_code_of_the_pages_does_what_they_say():
    import torch

    names = {}
    for name in ("own-data", "own-code"):
        for block in re.findall(r"^```python\n(.*?)^```$", text_of(name), re.DOTALL | re.MULTILINE):
            exec(block, names)
    model = torch.nn.Linear(3, 10)
    task = names["Smooth"](model, lambda parameters: torch.optim.SGD(parameters), None)
    result = task.training_step((torch.randn(8, 3), torch.arange(8)), 0)
    assert set(result) == {"loss", "acc", "top5"}
    assert 0 <= result["acc"] <= result["top5"] <= 1


def test_the_table_of_gpus_has_the_peaks_that_a_bench_compares_with():
    section = text_of("memory").partition("## GPUs in numbers")[2]
    rows = [line.split(" | ") for line in section.replace(",", "").splitlines() if " | " in line]
    shown = {row[0]: (float(row[3].split()[0]), float(row[4].split()[0])) for row in rows[1:]}
    assert shown == {gpu: (peak.half, peak.tf32) for gpu, peak in PEAKS.items()}


def test_the_table_of_horovod_has_its_seven_steps():
    section = text_of("coming-from").partition("## Horovod")[2].partition("\n## ")[0]
    rows = [
        line for line in section.splitlines() if " | " in line and not line.startswith("Horovod |")
    ]
    assert len(rows) == 7


def test_there_are_five_questions_before_the_first_job():
    section = text_of("clusters").partition("## Five questions")[2].partition("\n## ")[0]
    assert len([line for line in section.splitlines() if "? | " in line]) == 5


def test_no_package_comes_from_anaconda():
    for path in [*(ROOT / "template").rglob("*"), *LIBRARY.rglob("*")]:
        if not path.is_file() or path.suffix == ".md":
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        assert not re.search(r"conda install|^channels:|repo\.anaconda", text, re.M), path


def test_sites_are_those_of_the_profiles():
    assert site_tables.PAGE.read_text(encoding="utf-8") == site_tables.page(), (
        "type: python hooks/site_tables.py"
    )


SEEDS = "tests/project/src/myproj"
LEADS = {
    f"{SEEDS}/conf/config.yaml": ("configuration", "sweeps", "watching", "sites"),
    f"{SEEDS}/conf/data/digits.yaml": ("own-data",),
    f"{SEEDS}/data.py": ("own-data",),
    f"{SEEDS}/task.py": ("own-code", "multi-gpu"),
    f"{SEEDS}/train.py": ("training",),
    f"{SEEDS}/trials/baseline/README.md": ("trials",),
    f"{SEEDS}/trials/baseline/config.yaml": ("own-code",),
    f"{SEEDS}/trials/baseline/model.py": ("own-code",),
    "src/labrig/conf/lab.yaml": ("memory", "multi-gpu", "faster", "storage", "clusters"),
}


@pytest.mark.parametrize("file", LEADS)
def test_a_line_leads_to_the_page_that_explains_it(file):
    text = (ROOT / file).read_text(encoding="utf-8")
    pages = re.findall(r"lab docs ([a-z][\w-]*)", text)
    assert set(LEADS[file]) <= set(pages)
    for page in pages:
        assert (FOLDER / f"{page}.md").exists(), page


def test_the_picture_of_a_terminal_is_that_of_the_page():
    page = terminal_picture.PAGE.read_text(encoding="utf-8")
    drawn = terminal_picture.PICTURE.read_text(encoding="utf-8")
    assert drawn == terminal_picture.picture(page), "type: python hooks/terminal_picture.py"
    for command in terminal_picture.COMMANDS:
        assert f"$ {command}" in drawn


def test_the_readme_of_the_template_is_short():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if line.strip()]) <= 45
