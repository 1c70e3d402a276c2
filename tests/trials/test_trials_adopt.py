"""`lab adopt` reads what a stranger wrote: it runs none of it, follows no link, and says what it cannot read."""

import os

import pytest
import yaml
from labrig.errors import LabError, Refused
from labrig.trials.adopt import repository
from labrig.trials.adopt.command import adopt_command
from labrig.trials.adopt.repository import Modules
from projects import project_in
from repositories import write

PRIMARY = "defaults: [_self_, {model: net}, {data: rows}, {callbacks: null}, {experiment: null}]\nseed: 3\n"
MODULE = """
import os
os.mkdir({marker!r})
from lightning import LightningModule

class Net(LightningModule):
    def __init__(self, width, rate=0.1, root=None):
        super().__init__()

    def validation_step(self, batch, batch_idx):
        self.log("val_f1", 1.0)
        self.log_dict({{"val_loss": 0.0}})
"""


@pytest.fixture
def project(tmp_path):
    return project_in(tmp_path / "myproj")


@pytest.fixture
def there(tmp_path):
    """A small repository whose modules leave a mark where they are imported."""
    folder = tmp_path / "there"
    write(
        folder,
        {
            "configs/train.yaml": PRIMARY,
            "configs/model/net.yaml": "_target_: src.nets.net.Net\nwidth: 8\n",
            "configs/data/rows.yaml": "_target_: src.rows.Rows\n",
            "src/nets/net.py": MODULE.format(marker=str(tmp_path / "imported")),
            "src/rows.py": "from lightning import LightningDataModule\nclass Rows(LightningDataModule): pass\n",
        },
    )
    yield folder
    assert not (tmp_path / "imported").exists(), "a module was imported"


def adopt(project, path, capsys, *options):
    adopt_command(project, [str(path), *options])
    return capsys.readouterr().out


def written(project, name):
    return yaml.safe_load((project.source / name).read_text())


@pytest.mark.slow
def test_nothing_is_imported(project, there, capsys):
    said = adopt(project, there, capsys)
    assert written(project, "conf/task/net.yaml") == {
        "_target_": "${package}.there.nets.net.Net",
        "width": 8,
    }
    trial = written(project, "trials/there/config.yaml")
    assert trial["seed"] == 3
    assert trial["trainer"]["precision"] == "32-true", "as Lightning does where nothing is said"
    assert trial["trainer"]["max_epochs"] == 1000
    assert trial["checkpoint"] == {"monitor": None}
    assert "no metric chooses best.ckpt" in said


def test_a_dry_run_writes_nothing(project, there, capsys):
    before = sorted(project.root.rglob("*"))
    said = adopt(project, there, capsys, "--dry-run")
    assert "--- src/myproj/trials/there/config.yaml" in said
    assert "would write:" in said
    assert sorted(project.root.rglob("*")) == before


@pytest.mark.slow
def test_links_are_not_followed(project, there, tmp_path, capsys):
    write(tmp_path, {"secret.yaml": "password: 12345\n", "secret.py": "PASSWORD = 12345\n"})
    (there / "configs/data/leak.yaml").symlink_to(tmp_path / "secret.yaml")
    (there / "src/leak.py").symlink_to(tmp_path / "secret.py")
    (there / "src/nets/net.py").write_text("from src.leak import PASSWORD\nclass Net: pass\n")
    (there / "src/all").symlink_to("/")
    said = adopt(project, there, capsys)
    assert "configs/data/leak.yaml, src/all, src/leak.py (links are not followed)" in said
    contents = [path.read_bytes() for path in project.root.rglob("*") if path.is_file()]
    assert not [content for content in contents if b"12345" in content]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("configs/train.yaml", "a: [\n", r"train\.yaml is no valid YAML"),
        (
            "configs/train.yaml",
            "!!python/object/apply:os.mkdir [imported]\n",
            r"train\.yaml is no valid YAML: could not determine a constructor",
        ),
        ("configs/train.yaml", f"a: {'[' * 5000}\n", r"train\.yaml is no valid YAML"),
        (
            "configs/train.yaml",
            "a0: &a0 [x, x]\n"
            + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40)),
            r"stands for more than 20,000 values",
        ),
        (
            "configs/train.yaml",
            "hydra: {searchpath: [pkg://torch]}\n",
            r"train\.yaml sets hydra\.searchpath",
        ),
        (
            "configs/train.yaml",
            "defaults: [{model: gone}]\n",
            r"Hydra cannot compose configs/train",
        ),
        ("configs/train.yaml", f"x: {'y' * 1_000_001}\n", r"train\.yaml is 1\.0 MB"),
        ("configs/train.yaml", "x: caf\udce9\n", r"train\.yaml is not UTF-8: byte 6"),
        ("src/nets/net.py", "class Net(:\n", r"net\.py:1 cannot be read as.*invalid syntax"),
        ("src/nets/net.py", "x = '\0'\n", r"net\.py.*null bytes"),
        (
            "src/nets/net.py",
            f"x = {'(' * 5000}\n",
            r"net\.py.*(nested|overflow|memory|cannot be read)",
        ),
    ],
)
def test_what_cannot_be_read_is_named_and_nothing_is_written(
    project, there, capsys, name, text, message
):
    before = sorted(project.root.rglob("*"))
    (there / name).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(LabError, match=message):
        adopt(project, there, capsys)
    assert sorted(project.root.rglob("*")) == before


@pytest.mark.slow
def test_a_pipe_is_not_read(project, there, capsys):
    os.mkfifo(there / "configs/data/pipe.yaml")
    assert "to decide by hand" in adopt(project, there, capsys)


@pytest.mark.slow
@pytest.mark.parametrize(
    "section", ["trainer: 3", "callbacks: [1]", "logger: csv", "callbacks: {a: {_target_: 3}}"]
)
def test_a_section_of_another_kind_is_no_traceback(project, there, capsys, section):
    (there / "configs/train.yaml").write_text(f"{PRIMARY}{section}\n")
    adopt(project, there, capsys)
    assert written(project, "trials/there/config.yaml")["trainer"]["max_epochs"] == 1000


@pytest.mark.slow
def test_references(project, there, capsys, monkeypatch):
    """To what moves along they stay; others become values; where there is none, it is asked."""
    monkeypatch.setenv("TOKEN", "hush")
    (there / "configs/train.yaml").write_text(
        f"{PRIMARY}n: 3\nlist: [1, {{deep: '${{n}}'}}]\npaths: {{data_dir: data, output_dir: x}}\n"
        "data: {a: '${n}', b: '${seed}', c: '${paths.data_dir}/sub', d: '${paths.output_dir}/y',\n"
        "  e: 'n${n}-${list.1.deep}', f: '${oc.env:TOKEN}', g: '${model.width}', h: '${round:${n}}'}\n"
        "trainer: {max_steps: 50, devices: 4, strategy: ddp_spawn, log_every_n_steps: 7, precision: 16-mixed}\n"
    )
    said = adopt(project, there, capsys)
    trial = written(project, "trials/there/config.yaml")
    data = written(project, "conf/data/rows.yaml") | trial.get("data", {})
    assert data["a"] == 3
    assert data["b"] == "${seed}"
    assert data["c"] == "${paths.data.0}/sub"
    assert data["d"] == "???"
    assert data["e"] == "n3-3"
    assert data["f"] == "${oc.env:TOKEN}"
    assert data["g"] == "${task.width}"
    assert data["h"] == "???"
    assert "data.d is ${paths.output_dir}/y there" in said
    assert trial["trainer"]["max_epochs"] == -1, "max_steps decides"
    assert trial["trainer"]["strategy"] == "ddp_spawn"
    assert trial["trainer"]["precision"] == "16-mixed"
    assert trial["log"] == {"every_n_steps": 7}
    assert "trainer.devices is 4 on 1 node(s) there" in said


@pytest.mark.slow
def test_an_experiment_that_does_not_compose_is_left_out(project, there, capsys):
    write(
        there,
        {
            "configs/experiment/good.yaml": "# @package _global_\nmodel: {rate: 1e-3}\n",
            "configs/experiment/bad.yaml": "# @package _global_\ndefaults: [{override /data: gone}]\n",
            "configs/experiment/a\x1b[2Jb.yaml": "# @package _global_\n",
        },
    )
    said = adopt(project, there, capsys)
    assert written(project, "trials/good/config.yaml")["task"] == {"rate": 0.001}
    assert "configs/experiment/bad.yaml was left out. Hydra cannot compose" in said
    assert "\x1b" not in said


@pytest.mark.slow
def test_names_that_are_taken(project, there, capsys):
    write(there, {"configs/experiment/baseline.yaml": "# @package _global_\nseed: 4\n"})
    (there / "configs/data/rows.yaml").rename(there / "configs/data/digits.yaml")
    (there / "configs/train.yaml").write_text(PRIMARY.replace("rows", "digits"))
    digits = (project.source / "conf/data/digits.yaml").read_text()
    adopt(project, there, capsys)
    assert written(project, "trials/there_baseline/config.yaml")["seed"] == 4
    assert "override /data" in str(written(project, "trials/there/config.yaml")["defaults"])
    assert (project.source / "conf/data/there_digits.yaml").is_file()
    assert (project.source / "conf/data/digits.yaml").read_text() == digits
    for name in ("there", "data", "conf", "task"):  # data/ would hide data.py
        with pytest.raises(Refused, match="is there already"):
            adopt(project, there, capsys, "--as", name)


@pytest.mark.slow
def test_imports_are_followed_and_made_relative(project, there, capsys):
    (there / "src/nets/net.py").write_text(
        "from src.nets.parts import (\n    Part)\nfrom src import rows\nimport src.other\n"
        "import torch, gone_package\nclass Net(Part): pass\n"
    )
    write(
        there,
        {
            "src/nets/parts.py": "from rows import R as r  # mine\nfrom .base import Base\nclass Part(Base): pass\n",
            "src/nets/base.py": "import lightning as L\nclass Base(L.LightningModule):\n  pass\n",
            "src/other.py": "X = 1\r\n",
            "src/unused.py": "",
        },
    )
    said = adopt(project, there, capsys)
    new = (project.source / "there/nets/net.py").read_text()
    assert new.startswith(
        "from ..nets.parts import (\n    Part)\nfrom .. import rows\nimport src.other\n"
    )
    parts = (project.source / "there/nets/parts.py").read_text()
    assert parts.startswith("from ..rows import R as r  # mine\nfrom .base")
    assert (project.source / "there/nets/base.py").is_file()
    assert (project.source / "there/other.py").read_bytes() == b"X = 1\r\n"
    assert "nets/net.py:4 imports src.other, which has moved with it: write from ..other" in said
    assert "src/nets/net.py:5 needs gone_package, which neither lies next to it nor is ins" in said
    assert "make add PACKAGE=gone_package" in said
    assert "not copied: src/unused.py (no _target_ needs them)" in said
    assert (project.source / "there/ruff.toml").read_text().endswith('exclude = ["*"]\n')


@pytest.mark.parametrize(
    ("files", "path", "message"),
    [
        ({"train.py": ""}, "", r"no train\.yaml in configs/.*\n?.*Scripts: train\.py"),
        ({}, "gone", "there is no directory or file"),
        ({"notes.md": ""}, "notes.md", "is no Python file"),
        ({"ünï.py": "print(1)\n"}, "ünï.py", None),
        ({"7.py": "print(1)\n"}, "7.py", "makes no name"),
    ],
)
def test_other_things_that_are_named(project, tmp_path, capsys, files, path, message):
    write(tmp_path / "other", files)
    (tmp_path / "other").mkdir(exist_ok=True)
    if message is None:
        assert "lab train trial=n" in adopt(project, tmp_path / "other" / path, capsys)
        return
    with pytest.raises(LabError, match=message):
        adopt(project, tmp_path / "other" / path, capsys)


def test_a_script_is_copied_as_it_is_and_its_options_are_not_read(project, tmp_path, capsys):
    text = (
        "import argparse, transformers, timm, parts.one\nfrom deep.down import net\n"
        "from lightning.pytorch.cli import LightningCLI\n"
        "import lightning as L\nclass A(L.LightningModule): pass\np = argparse.ArgumentParser()\n"
        "p.add_argument('--lr', type=float, default=1e-3)\nopen('words.txt')\n"
    )
    files = {
        "run-it.py": text,
        "parts/__init__.py": "",
        "parts/one.py": "X = 1\n",
        "deep/down/net.py": "from .parts import Y\n",
        "deep/down/parts.py": "Y = 1\n",
        "words.txt": "a",
    }
    write(tmp_path / "other", files | {"unused.py": ""})
    said = adopt(project, tmp_path / "other/run-it.py", capsys, "--as", "fine")
    assert written(project, "trials/fine/config.yaml") == {"program": "run-it.py"}
    trial = project.source / "trials/fine"
    assert (trial / "run-it.py").read_text() == text
    assert (trial / "parts/one.py").read_text() == "X = 1\n"
    assert (trial / "deep/down/parts.py").read_text() == "Y = 1\n"
    assert not (trial / "unused.py").exists()
    assert "run-it.py reads its options itself" in said
    assert "'argv=[fit]'" in said
    assert "not copied from next to run-it.py: unused.py, words.txt. The script works in" in said
    assert "lab docs from-huggingface" in said
    assert "lab docs from-lightning" in said
    assert "run-it.py:1 needs timm, which neither lies next to it nor is installed" in said


@pytest.mark.parametrize(
    ("files", "asks"),
    [
        ({"run.py": "print(1)\n"}, True),
        ({"run.py": "from labrig.program import log\nlog(1, {'loss': 2.0})\n"}, False),
        ({"run.py": "from labrig import program\nprogram.log(1, {'loss': 2.0})\n"}, False),
        ({"run.py": "import curve\n", "curve.py": "import labrig.program as lab\n"}, False),
        ({"run.py": "import timm\nfrom labrig import load\n"}, True),
    ],
    ids=["plain", "log", "program", "module", "load"],
)
def test_a_curve_is_proposed_where_the_script_has_none(project, tmp_path, capsys, files, asks):
    write(tmp_path / "other", files)
    said = adopt(project, tmp_path / "other/run.py", capsys)
    assert ("a curve, and a run that can be resumed" in said) is asks


def test_a_package_above_the_script_comes_along(project, tmp_path, capsys):
    files = {
        "tools/train.py": "from kit.net import Net\nimport helper, gone_package\n",
        "tools/helper.py": "",
        "kit/__init__.py": "",
        "kit/net.py": "class Net: pass\n",
        "kit/other.py": "",
    }
    write(tmp_path / "other", files)
    said = adopt(project, tmp_path / "other/tools/train.py", capsys, "--as", "kit")
    assert written(project, "trials/kit/config.yaml") == {"program": "tools/train.py"}
    trial = project.source / "trials/kit"
    copied = {file.relative_to(trial).as_posix() for file in trial.rglob("*.py")}
    assert copied == {"__init__.py", *files} - {"kit/other.py"}
    assert "tools/train.py:2 needs gone_package" in said
    assert "needs kit" not in said


def test_a_script_of_hydra_gets_its_options_as_hydra_reads_them(project, tmp_path, capsys):
    write(tmp_path / "other", {"run.py": "from hydra_zen import zen\n"})
    said = adopt(project, tmp_path / "other/run.py", capsys)
    expected = {"program": "run.py", "style": "key=value"}
    assert written(project, "trials/run/config.yaml") == expected
    assert "run.py imports Hydra" in said


def test_the_configs_of_lightning_cli_are_left_to_its_own_parser(project, there, capsys):
    (there / "configs/train.yaml").write_text("fit: {model: {class_path: net.Net}}\n")
    with pytest.raises(LabError, match=r"is for LightningCLI.*SCRIPT.py.*-- fit --config /"):
        adopt(project, there, capsys)


def test_a_gap_is_asked_once_under_the_key_that_exists(project, there, capsys):
    (there / "configs/model/net.yaml").write_text("_target_: src.nets.net.Net\nwidth: ???\n")
    said = adopt(project, there, capsys)
    assert said.count("is ??? there") == 1
    assert "task.width is ??? there" in said


def test_a_directory_that_holds_too_much_is_not_read(project, there, monkeypatch):
    monkeypatch.setattr(repository, "MAX_ENTRIES", 3)
    with pytest.raises(LabError, match=r"holds more than 3 files. Data lies next to the code"):
        adopt_command(project, [str(there)])


def test_code_that_python_cannot_take_is_named(tmp_path):
    write(tmp_path, {"deep.py": "x = " + "-" * 100_000 + "1\n"})
    modules = Modules(repository.AdoptedRepository(tmp_path.resolve()))
    with pytest.raises(LabError, match=r"deep.py.* cannot be read as Python"):
        modules.tree("deep.py")
