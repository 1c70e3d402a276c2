"""A repository as lightning-hydra-template makes them: adopted by one command, with the numbers that it had."""

from pathlib import Path

import myproj
import pytest
import torch
import yaml
from attempts import attempt, attempts
from foreign import WITNESS, Witness, by_lab, differences, own_modules
from hydra import compose, initialize_config_dir
from labrig.project import Project
from projects import call, copy_project, equip, work_on
from repositories import commit, git

REPOSITORY = Path(__file__).parent / "hydra_template"
EXAMPLE = ("trial=example", "log.every_n_steps=2", "trainer.threads=1")
PACKAGE = "src/myproj/hydra_template"


@pytest.fixture(scope="module")
def adopted(tmp_path_factory):
    """A project that has adopted it, and what the command said."""
    folder = equip(copy_project(tmp_path_factory.mktemp("adopted") / "myproj"))
    said = call(folder, "lab", "adopt", REPOSITORY)
    return folder, said


@pytest.fixture
def home(adopted, monkeypatch):
    """The project, in which this process works."""
    folder, _ = adopted
    monkeypatch.setattr(myproj, "__path__", [*myproj.__path__, str(folder / "src/myproj")])
    work_on(Project(folder, "myproj"))
    with own_modules(REPOSITORY, "src", "myproj.hydra_template"):
        yield folder


def plainly(folder, *overrides):
    """What its own train.py does: the witness of the fit."""
    from src.train import train

    settings = ("~hydra", "test=false", f"paths.output_dir={folder}", f"paths.data_dir={folder}")
    with initialize_config_dir(str(REPOSITORY / "configs"), version_base="1.3"):
        config = compose("train", [*settings, WITNESS, *overrides])
    torch.set_num_threads(1)
    trainer, _ = train(config)
    (seen,) = [one for one in trainer.callbacks if isinstance(one, Witness)]
    return seen


@pytest.mark.release
@pytest.mark.slow
def test_it_trains_as_by_its_own_script(home, tmp_path):
    seen, lab = by_lab(home, tmp_path / "lab", base=EXAMPLE)
    plain = plainly(tmp_path, "experiment=example")
    assert differences(plain, seen) == []
    assert len(plain.losses) == 4 * 5
    saved = lab.checkpoint["state_dict"]
    assert all(torch.equal(saved[name], value) for name, value in plain.weights.items())
    (optimizer,) = lab.checkpoint["optimizer_states"]
    assert optimizer["param_groups"][0]["lr"] == 0.004, "the optimizer is the module's own"


@pytest.mark.release
@pytest.mark.slow
def test_a_stop_in_mid_epoch_changes_no_number(home, tmp_path):
    whole = attempt(home, tmp_path / "whole", "data.shuffle=true", base=EXAMPLE)
    stops = ["train:3", "train:13"]
    parts = attempts(home, tmp_path / "parts", "data.shuffle=true", stops=stops, base=EXAMPLE)
    assert whole.differences(parts) == []
    epochs = [row for row in whole.rows if "train/acc" in row]
    assert len(epochs) == 4


def test_what_is_written(adopted):
    folder, said = adopted
    for name in ("data/spots_datamodule.py", "models/components/dense_net.py"):
        assert (folder / PACKAGE / name).read_bytes() == (REPOSITORY / "src" / name).read_bytes()
    module = (folder / PACKAGE / "models/spots_module.py").read_text()
    there = (REPOSITORY / "src/models/spots_module.py").read_text()
    assert module == there.replace("from src.utils import", "from ..utils import")
    assert not (folder / PACKAGE / "train.py").exists()
    trial = yaml.safe_load((folder / "src/myproj/trials/example/config.yaml").read_text())
    assert trial["seed"] == 12345
    assert trial["task"] == {"optimizer": {"lr": 0.004}, "net": {"lin1_size": 48}}
    assert trial["checkpoint"] == {"monitor": "val/acc", "mode": "max"}
    assert trial["trainer"]["gradient_clip_val"] == 0.5
    assert {"/task": "spots"} in trial["defaults"]
    task = (folder / "src/myproj/conf/task/wide.yaml").read_text()
    assert "_target_: ${package}.hydra_template.models.spots_module.SpotsLitModule" in task
    assert "lin2_size: ${.lin1_size}" in task
    assert git(folder, "diff", "--name-only") == "", "nothing is overwritten"
    assert "lab check trial=example && lab train trial=example" in said
    by_hand = said.partition("to decide by hand:")[2]
    assert "groups that stay behind: debug, hparams_search" in by_hand


@pytest.mark.release
@pytest.mark.slow
def test_it_is_not_adopted_twice(adopted):
    folder, _ = adopted
    said = call(folder, "lab", "adopt", REPOSITORY, rc=4)
    assert "trials/hydra_template is there already, and adopt overwrites nothing" in said
    said = call(folder, "lab", "adopt", REPOSITORY, "--as", "again", "--dry-run")
    assert "--- src/myproj/trials/again_example/config.yaml" in said
    assert "src/myproj/conf/data/again_spots.yaml" in said
    assert not (folder / "src/myproj/again").exists()


@pytest.mark.release
@pytest.mark.slow
def test_a_user_types_what_it_says(adopted):
    """Check, train and commit; the hooks of the first commit leave the code as it is."""
    folder, _ = adopted
    assert "ok" in call(folder, "lab", "check", "trial=wide")
    assert "finished" in call(folder, "lab", "train", "trial=hydra_template", cold=True)
    assert "test/acc" in call(folder, "lab", "runs", "show", "@last")
    git(folder, "add", "-A")
    before = (folder / PACKAGE / "utils/pylogger.py").read_bytes()
    assert "ruff" not in call(folder, "lab", "hooks")
    assert (folder / PACKAGE / "utils/pylogger.py").read_bytes() == before
    commit(folder, "Adopt")
