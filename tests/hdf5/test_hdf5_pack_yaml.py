"""Packing writes conf/data/NAME.yaml, with which info, check and train work at once."""

import json
import subprocess
import sys

import numpy as np
import pytest
import yaml
from hdf5_packing import packing  # noqa: F401
from labrig.data import H5DataModule
from labrig.errors import LabError
from PIL import Image
from projects import ROOT, call


def images(root, n=6, size=(9, 7)):
    rng = np.random.default_rng(0)
    for i in range(n):
        path = root / "cd"[i % 2] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (*size, 3)).astype(np.uint8)).save(path)
    return root


def read_config(folder, name):
    path = folder / "src/myproj/conf/data" / f"{name}.yaml"
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_the_yaml_says_how_to_read_and_to_make_the_file(tmp_path, pack, monkeypatch, capsys):
    images(tmp_path / "raw" / "my pets")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    pack("pets", "../raw/my pets", "--as", "images", "--size", 4, 5)
    config = read_config(tmp_path, "pets")
    assert config.pop("pack") == "lab data pack pets 'raw/my pets' --as images --size 4 5"
    assert config.pop("_target_") == "labrig.data.H5DataModule"
    assert (config["fields"], config["scale"]) == (["x", "y"], {"x": 255})
    assert "x / 255: float32 in 0..1" in capsys.readouterr().out
    config |= {"search": [str(tmp_path / "data")], "seed": 0}
    data = H5DataModule(**config)
    x, y = data.on_after_batch_transfer(next(iter(data.train_dataloader())), 0)
    assert x.shape[1:] == (3, 4, 5)
    assert x.dtype.is_floating_point
    assert 0.5 < x.max() <= 1
    assert y.dtype.is_signed


def test_a_yaml_that_is_there_is_never_changed(tmp_path, pack, capsys):
    images(tmp_path / "raw")
    pack("pets", tmp_path / "raw", "--as", "images")
    file = tmp_path / "src/myproj/conf/data/pets.yaml"
    mine = file.read_text() + "# mine\n"
    file.write_text(mine)
    pack("pets", tmp_path / "raw", "--as", "images")
    assert file.read_text() == mine
    assert "pets.yaml stays as it is" in capsys.readouterr().out


def test_a_label_that_came_later_is_named_with_the_line_to_write(tmp_path, pack, capsys):
    table = tmp_path / "raw/t.csv"
    table.write_text("a,b,outcome\n" + "1,2,0\n3,4,1\n" * 10)
    pack("t", table, "--as", "table")
    assert "To name one: the same with --label COLUMN" in capsys.readouterr().out
    assert read_config(tmp_path, "t")["fields"] == ["x"]
    pack("t", table, "--as", "table", "--label", "outcome")
    assert "It reads no label. Write:\n  fields: [x, y]\n" in capsys.readouterr().out
    file = tmp_path / "src/myproj/conf/data/t.yaml"
    file.write_text(file.read_text().replace("fields: [x]", "fields: [x, y]"))
    pack("t", table, "--as", "table", "--label", "outcome")
    assert "no label" not in capsys.readouterr().out


def test_encoded_images_get_a_size_to_be_decoded_to(tmp_path, pack):
    images(tmp_path / "raw")
    for words, size in (((), [224, 224]), (("--size", 8, 9), [8, 9])):
        pack("pets", tmp_path / "raw", "--as", "encoded", *words)
        config = read_config(tmp_path, "pets")
        assert config["shapes"] == {"x": size}
        assert config["scale"] == {"x": 255}
        (tmp_path / "src/myproj/conf/data/pets.yaml").unlink()


def test_a_command_with_dollars_is_kept_as_it_is(tmp_path, pack):
    np.save(tmp_path / "raw" / "x.npy", np.zeros((5, 2)))
    (tmp_path / "raw" / "${oc.env:HOME}").mkdir()
    (tmp_path / "raw" / "x.npy").rename(tmp_path / "raw" / "${oc.env:HOME}" / "x.npy")
    pack("a", tmp_path / "raw" / "${oc.env:HOME}" / "x.npy", "--as", "arrays")
    from omegaconf import OmegaConf

    path = tmp_path / "src/myproj/conf/data/a.yaml"
    assert "raw/${oc.env:HOME}/x.npy" in OmegaConf.load(path)["pack"]


@pytest.mark.release
@pytest.mark.slow
def test_packed_data_train_at_once(own_project, tmp_path):
    raw = tmp_path / "raw.npz"
    rng = np.random.default_rng(0)
    np.savez(raw, x=rng.integers(0, 255, (40, 1, 8, 8)).astype(np.uint8), y=np.arange(40) % 10)
    out = call(own_project, "lab", "data", "pack", "own", raw, "--as", "arrays")
    assert "lab check trial=baseline data=own" in out
    attrs = call(own_project, "lab", "data", "info", "own")
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=own_project, capture_output=True, text=True
    ).stdout.strip()
    assert f"git_commit: {commit}" in attrs
    assert "git_changed" not in attrs
    assert f"command: lab data pack own {raw} --as arrays" in attrs
    assert "ok  baseline" in call(own_project, "lab", "check", "trial=baseline", "data=own")
    (own_project / "data" / "own.h5").unlink()
    for words in (("data", "info", "own"), ("check", "trial=baseline", "data=own")):
        message = call(own_project, "lab", *words, rc=2)
        assert f"Make it with: lab data pack own {raw} --as arrays" in message
    message = call(own_project, "lab", "data", "pack", "own", rc=2)
    assert f"lab data pack own {raw} --as arrays" in message


@pytest.mark.release
@pytest.mark.slow
def test_data_without_a_test_split_are_trained_and_not_tested(own_project, tmp_path):
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        x = rng.integers(0, 255, (40, 1, 8, 8)).astype(np.uint8)
        np.savez(tmp_path / f"{name}.npz", x=x, y=np.arange(40) % 10)
    sources = (f"train={tmp_path}/a.npz", f"val={tmp_path}/b.npz")
    call(own_project, "lab", "data", "pack", "own", *sources, "--as", "arrays")
    words = ("trial=baseline", "data=own", "trainer=cpu", "trainer.max_epochs=1")
    said = call(own_project, "lab", "train", *words)
    assert "not tested: own.h5 has no split test" in said
    assert "finished  (not tested)" in said
    assert "PossibleUserWarning" not in said


@pytest.mark.slow
def test_the_changed_code_is_named_in_the_file(own_project, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((5, 2)))
    (own_project / "src/myproj/data.py").write_text("# other code\n")
    words = ("own", tmp_path / "x.npy", "--as", "arrays", "--to", tmp_path / "large disk")
    call(own_project, "lab", "data", "pack", *words)
    shown = call(own_project, "lab", "data", "info", "own")
    assert "git_changed: src/myproj/data.py" in shown
    assert shown.startswith(f"{tmp_path}/large disk/own.h5: 5 samples")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("p", "pets"),
            r"--as images, encoded, pairs, audio, table, text, tokens, series, arrays or hdf5\. .* looks like images",
        ),
        (("p", "pets", "--as", "audio"), r"has no audio .*looks like images: --as images"),
        (("p", "pets", "--as", "images", "--rate", "3"), r"--rate goes with --as audio"),
        (("p", "pets", "--as", "images", "--size", "0", "3"), r"are not above 0; write such as"),
        (("p", "pets", "--as", "audio", "--rate", "0"), r"are not above 0; write such as"),
        (("p", "pets", "--as", "images", "--fill", "3"), r"--fill goes with --as table"),
        (("p", "train=pets", "pets", "--as", "images"), r"Write all of them so, or none"),
        (
            ("p", "train=pets", "--as", "images", "--group", "a"),
            r"leave out --split-file and --gro",
        ),
        (("p", "a.csv", "--as", "arrays"), r"cannot be read as .npy.*looks like table"),
        (("p", "a.csv", "--as", "hdf5"), r"cannot be read as HDF5.*looks like table"),
        (("p", "pets", "--as", "table"), r"cannot be read as a table.*looks like images"),
    ],
)
def test_a_wrong_kind_is_reported_with_the_right_one(tmp_path, pack, monkeypatch, words, message):
    images(tmp_path / "raw" / "pets")
    (tmp_path / "raw" / "a.csv").write_text("a,b\n1,2\n")
    monkeypatch.chdir(tmp_path / "raw")
    with pytest.raises(LabError, match=message):
        pack(*words)


@pytest.mark.parametrize(
    ("kind", "module", "typed"),
    [
        ("images", "PIL", "pillow"),
        ("pairs", "PIL", "pillow"),
        ("audio", "soundfile", "'soundfile scipy'"),
    ],
)
def test_a_missing_package_is_named_as_on_the_pages(
    tmp_path, pack, monkeypatch, kind, module, typed
):
    images(tmp_path / "raw")
    monkeypatch.setattr("labrig.errors.find_spec", lambda name: None if name == module else 1)
    with pytest.raises(LabError, match=rf"make add PACKAGE={typed}"):
        pack("a", tmp_path / "raw", "--as", kind)
    assert typed.strip("'") in (ROOT / "docs/own-data.md").read_text()


def test_no_samples_in_a_step_are_refused_in_words():
    with pytest.raises(LabError, match=r"data\.batch_size is 0, expected at least 1"):
        H5DataModule("a.h5", batch_size=0)
    with pytest.raises(LabError, match=r"data\.scale names \['z'\]"):
        H5DataModule("a.h5", scale={"z": 3})


COMPOSE = """
import sys
from labrig.config.compose import compose
from labrig.project import Project
import json
from omegaconf import OmegaConf
data = compose(Project.find(), sys.argv[1:]).config.data
print(json.dumps(OmegaConf.to_container(data, resolve=False)))
"""


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.traceback("a Python program, not lab")
def test_arguments_of_the_data_module_on_the_command_line(project, tmp_path):
    def compose(*words):
        done = subprocess.run(
            [sys.executable, "-c", COMPOSE, "trial=baseline", *words],
            cwd=project,
            env={"PYTHONPATH": str(project / "src"), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=120,
        )
        return done.stdout or done.stderr

    target = "data._target_=labrig.data.H5DataModule"
    data = json.loads(compose(target, "data.shapes.x=[64,64]", "data.batch_size=3"))
    assert (data["shapes"], data["batch_size"]) == ({"x": [64, 64]}, 3)
    assert json.loads(compose("data.shapes={x:[64,64]}"))["shapes"] == {"x": [64, 64]}
    assert "no argument 'batchsize'; did you mean: batch_size" in compose(
        target, "++data.batchsize=3"
    )
    assert "an argument 'shape'; did you mean: shapes" in compose("data.shape.x=3")
