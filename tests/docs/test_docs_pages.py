"""What single pages promise: their code runs, their tables are whole, and lines of code lead to them."""

import re
import sys
from types import SimpleNamespace

import pytest
from labrig.bench.result import PEAKS
from labrig.record.compare.seed_statistics import student_quantile
from labrig.record.list.cost import list_prices
from projects import LIBRARY, PROJECT, ROOT

sys.path.append(str(ROOT / "hooks"))
import site_tables
import terminal_picture

FOLDER = ROOT / "docs"
# One question each. The older pages are references, and longer
SHORT = (
    *("from-hydra-template", "from-huggingface", "from-lightning", "from-loop"),
    *(
        "from-torchvision",
        "cite",
        "clusters",
        "coming-from",
        "command-line",
        "debugging",
        "faster",
        "memory",
    ),
    *("multi-gpu", "notebooks", "own-code", "own-data", "parallelism", "problems"),
    *("sequences", "shared-server", "storage", "untested"),
    *(
        "forecasting",
        "growing-data",
        "leaving",
        "record-files",
        "lightning-and-hydra",
        "statistics",
        "through-ssh",
        "together",
        "which-template",
    ),
)


def text_of(name):
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")


def test_a_page_answers_one_question():
    for name in SHORT:
        lines = text_of(name).splitlines()
        assert len(lines) <= 80, name
        assert lines[0].startswith("# "), name
        assert lines[0].endswith(("?", "…")), f"{name}: the heading is the question"


@pytest.mark.parametrize("name", ["own-data", "own-code", "from-lightning", "leaving"])
def test_python_of_a_page_runs(name):
    blocks = re.findall(r"^```python\n(.*?)^```$", text_of(name), re.DOTALL | re.MULTILINE)
    names = {}
    for block in blocks:
        exec(block, names)
    made = {"own-data": "Pets", "own-code": "Smooth", "from-lightning": "Waves"}.get(name, "Plain")
    assert names[made].__doc__


def test_the_loss_of_the_page_is_smoothed():
    import torch
    from torch.nn import functional as F

    names = {}
    (block,) = re.findall(r"^```python\n(.*?)^```$", text_of("own-code"), re.DOTALL | re.MULTILINE)
    exec(block, names)
    score_BC = torch.randn(8, 10, generator=torch.Generator().manual_seed(0))
    label_B = torch.arange(8)
    task = SimpleNamespace(model=lambda image: score_BC)
    said = names["Smooth"].training_step(task, (score_BC, label_B), 0)
    assert said["loss"] == F.cross_entropy(score_BC, label_B, label_smoothing=0.1)
    assert said["loss"] != F.cross_entropy(score_BC, label_B)


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


@pytest.mark.slow
def test_plain_lightning_of_the_page_on_leaving_trains():
    import lightning.pytorch as L
    import torch

    (block,) = re.findall(r"^```python\n(.*?)^```$", text_of("leaving"), re.DOTALL | re.MULTILINE)
    names = {}
    exec(block, names)
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3))
    before = network[1].weight.detach().clone()
    batches = [(torch.randn(8, 1, 2, 2), torch.arange(8) % 3)]
    trainer = L.Trainer(max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False)
    trainer.fit(names["Plain"](network), torch.utils.data.DataLoader(batches, batch_size=None))
    assert not torch.equal(network[1].weight, before)


def test_the_widths_of_intervals_are_those_of_student():
    rows = re.findall(r"^(\d+) \| ± ([\d.]+) \*s\*$", text_of("statistics"), re.MULTILINE)
    assert len(rows) == 4
    for n_seeds, width in rows:
        assert float(width) == round(student_quantile(int(n_seeds) - 1) / int(n_seeds) ** 0.5, 1)


def test_the_first_screen_of_the_readme_says_what_it_is():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    first_lines = "\n".join(text.splitlines()[:12])
    for word in (
        "PyTorch",
        "Lightning",
        "Hydra",
        "Linux",
        "Slurm",
        "students",
        "uvx copier copy gh:",
    ):
        assert word in first_lines, word
    screen = text.partition("## Beside others")[0]
    searched = (
        "HDF5 DDP AMP ruff pre-commit pytest profiler W&B copier.update reproduc commit sweep"
    )
    assert [word for word in searched.split() if not re.search(word, screen)] == []
    for word in ("Never tried:", "lightning-hydra-template", "DVC", "W&B", "which-template.md"):
        assert word in text, word


def test_the_tree_of_the_readme_is_that_of_a_project():
    tree = (ROOT / "README.md").read_text(encoding="utf-8").partition("myproj/\n")[2]
    named = re.findall(r"[\w.-]+\.(?:py|md|toml|yaml|yml|sh|cff)\b", tree.partition("```")[0])
    # the tree is of a project that answered `slurm`; tests/project answered `local`
    there = {path.name for path in PROJECT.rglob("*")} | {"slurm.sh"}
    assert len(named) > 15
    assert [name for name in named if name not in there] == []


def test_the_table_of_gpus_has_the_peaks_that_a_bench_compares_with():
    section = text_of("memory").partition("## GPUs in numbers")[2]
    rows = [line.split(" | ") for line in section.splitlines() if " | " in line]
    rows = [[cell.replace(",", "") for cell in row] for row in rows]
    shown = {row[0]: (float(row[4].split()[0]), float(row[5].split()[0])) for row in rows[1:]}
    assert shown == {gpu: (peak.half, peak.tf32) for gpu, peak in PEAKS.items()}


def test_the_other_columns_of_the_table_of_gpus_agree_with_each_other():
    """int8 is twice half from Turing on; whoever has no tensor cores has half at most twice float32.

    All of the memory is read within 15 to 90 ms; fp64 is never faster than float32.
    """
    section = text_of("memory").partition("## GPUs in numbers")[2]
    assert "have twice the figures from Ampere on" in section, "sparse products"
    rows = [line.split(" | ") for line in section.replace(",", "").splitlines() if " | " in line]
    for name, capability, memory, bandwidth, half, _, fp64, int8, power in rows[1:]:
        for size_GB, GB_per_s in zip(memory.split(" or "), bandwidth.split(" or "), strict=False):
            assert 0.015 < float(size_GB) / float(GB_per_s) < 0.09, name
        assert 0 < float(fp64.split()[0]) <= PEAKS[name].float32 / 1.9, name
        assert 70 <= float(re.findall(r"[\d.]+", power)[0]) <= 1000, name
        if float(capability) >= 7.5:
            wide = {"RTX 3090": 4, "RTX 4090": 4}.get(name, 2)  # half there: with float32 sums
            assert float(int8) == pytest.approx(wide * float(half.split()[0]), rel=0.02), name
        else:
            assert float(PEAKS[name].half) <= 2 * PEAKS[name].float32 or name == "V100"


def test_the_prices_of_the_page_are_those_of_the_lists():
    section = text_of("shared-server").partition("10¹⁸ operations")[2].partition("\n\n`lab`")[0]
    head, *rows = [line.split(" | ") for line in section.splitlines() if " | " in line]
    clouds = [title.partition(",")[0] for title in head[1:-1]]
    lists = {cloud: list_prices(cloud).per_gpu_hour for cloud in clouds}
    assert sorted(row[0] for row in rows) == sorted(
        {gpu for prices in lists.values() for gpu in prices}
    )
    for gpu, *prices, per_work in rows:
        listed = [lists[cloud].get(gpu) for cloud in clouds]
        assert [None if price == "-" else float(price) for price in prices] == listed, gpu
        cheapest = min(price for price in listed if price)
        tera = max((name for name in PEAKS if name in gpu), key=len)
        assert float(per_work) == round(cheapest * 1e6 / 3600 / PEAKS[tera].half, 2), gpu


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


@pytest.mark.parametrize("name", terminal_picture.COMMANDS)
def test_the_picture_of_a_terminal_is_that_of_the_first_day(name):
    page = terminal_picture.PAGE.read_text(encoding="utf-8")
    drawn = (terminal_picture.FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    assert drawn == terminal_picture.picture(page, name), "type: python hooks/terminal_picture.py"
    for command in terminal_picture.COMMANDS[name]:
        assert f"$ {command}" in drawn
    shown_in = "index" if name == "first-day" else name
    assert f"](img/{name}.svg)" in text_of(shown_in), "a page shows it"


def test_the_readme_of_the_template_is_short():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    screen = text.partition("## Beside others")[0].splitlines()
    assert len([line for line in screen if line.strip()]) <= 45
