"""The page on existing code, typed line by line in a small repository as a student has one."""

import json
import re
import shlex
import time

import copier
import pytest
from projects import ROOT, call, equip
from rendering import copy_template, release
from repositories import commit, git, write

PAGE = (ROOT / "docs/adopt.md").read_text(encoding="utf-8")
DATASET = """
import torch
from sklearn.datasets import load_digits
from torch.utils.data import Dataset


class Scans(Dataset):
    def __init__(self, split):
        digits = load_digits()
        part = slice(0, 1400) if split == "train" else slice(1400, None)
        self.images = torch.tensor(digits.images[part], dtype=torch.float32) / 16
        self.labels = torch.tensor(digits.target[part])

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.images[i][None], self.labels[i]
"""
MODEL = """
from losses import SMOOTHING
from torch import nn


class Net(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.smoothing = SMOOTHING
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))

    def forward(self, x):
        return self.layers(x)
"""
LOSSES = """
from torch.nn import functional as F

SMOOTHING = 0.1


def smooth_cross_entropy(score_BC, label_B):
    return F.cross_entropy(score_BC, label_B, label_smoothing=SMOOTHING)
"""
TRAIN = """
import argparse

import torch
from dataset import Scans
from losses import smooth_cross_entropy
from model import Net
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10)
args = parser.parse_args()
net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for epoch in range(args.epochs):
    for x, y in DataLoader(Scans("train"), 64, shuffle=True):
        optimizer.zero_grad()
        loss = smooth_cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
    print("epoch", epoch, "loss", loss.item())
torch.save(net.state_dict(), "weights.pt")
"""
REPOSITORY = {
    "train.py": TRAIN,
    "model.py": MODEL,
    "losses.py": LOSSES,
    "dataset.py": DATASET,
    "requirements.txt": "# tested\ntorch>=2\nscikit-learn\n",
    "README.md": "# seg\n\nMy segmentation code.\n",
    ".gitignore": "data/\n*.pt\n.env\n",
    "Makefile": "clean:\n\trm -f *.pt\n",
    "notebooks/look.ipynb": '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}\n',
    "tests/test_losses.py": "def test_nothing():\n    assert True\n",
}
# The environment of these tests stands in for that of the project.
LEFT_OUT = ("cd seg", "make setup", "make add", ". .venv/")


def blocks(kind):
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.M | re.S)
    return [text for language, text in fenced if language == kind]


def commands(block):
    """The lines of a block, without comments."""
    return [line.partition("  #")[0].strip() for line in block.splitlines()]


@pytest.fixture(scope="module")
def seg(tmp_path_factory):
    """The repository, in git, with data and weights that are ignored."""
    folder = tmp_path_factory.mktemp("adopt") / "seg"
    write(folder, REPOSITORY)
    commit(folder, "My code")
    write(folder, {"data/scans.bin": "gigabytes", "old.pt": "weights"})
    return folder


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    folder = copy_template(tmp_path_factory.mktemp("adopted") / "template")
    release(folder, "0.1.0")
    return folder


def type_in(folder, line, template):
    if line.startswith(LEFT_OUT):
        return
    if line.startswith("copier copy"):
        assert shlex.split(line)[2:] == ["--overwrite", "ADDRESS", "."]
        copier.run_copy(str(template), folder, defaults=True, overwrite=True, quiet=True)
    elif line.startswith("lab "):
        words = shlex.split(line)[1:]
        settings = ["trainer=cpu", "trainer.threads=1"] if words[0] in ("train", "check") else []
        call(folder, "lab", *words, *settings)
    else:
        identity = {
            f"GIT_{role}_{key}": "t@example.org"
            for role in ("AUTHOR", "COMMITTER")
            for key in ("NAME", "EMAIL")
        }
        call(folder, "bash", "-c", line.replace("git commit", "git commit --no-verify"), **identity)


@pytest.mark.release
def test_the_page_leads_from_scripts_to_a_run(seg, template):
    adopt, environment, record, move, train = map(commands, blocks(""))
    for line in adopt:
        type_in(seg, line, template)
    assert git(seg, "branch", "--show-current") == "adopt"
    assert (seg / "README.md").read_text() == REPOSITORY["README.md"]
    assert (seg / "tests/test_losses.py").read_text() == REPOSITORY["tests/test_losses.py"]
    assert "-clean:" in git(seg, "diff", "Makefile"), "git has what was replaced"
    equip_in_place(seg)
    for line in environment:
        type_in(seg, line, template)
    tracked = git(seg, "ls-files").splitlines()
    assert "src/seg/conf/data/digits.yaml" in tracked
    assert not {"data/scans.bin", "old.pt"} & set(tracked)

    for line in record:
        type_in(seg, line, template)
    wait_for_last(seg)
    assert "epoch 1 loss" in call(seg, "lab", "logs", "@last")

    for line in move:
        type_in(seg, line, template)
    for block in blocks("python") + blocks("yaml"):
        path = re.match(r"# (\S+)\n", block)[1]
        write(seg, {path: block})
    for line in train:
        type_in(seg, line, template)
    assert wait_for_last(seg)["metrics"]["val/acc"] > 0.15
    assert git(seg, "status", "--porcelain") == ""
    assert "My code" in git(seg, "log", "--follow", "--format=%s", "src/seg/losses.py")


def wait_for_last(folder, limit_s=180):
    """The record of the last run, once it is finished."""
    end_s = time.monotonic() + limit_s
    while time.monotonic() < end_s:
        run = json.loads(call(folder, "lab", "runs", "show", "@last", "--json"))
        if run["status"] == "finished":
            return run
        time.sleep(0.5)
    raise AssertionError(run)


def equip_in_place(folder):
    """An environment and `lab`, without the commit that belongs to the page."""
    head = git(folder, "rev-parse", "HEAD")
    equip(folder)
    git(folder, "reset", "-q", "--mixed", head)


@pytest.mark.release
def test_updates_reach_it(seg, template):
    file = template / "template/.gitattributes"
    file.write_text(file.read_text() + "*.npz binary\n")
    release(template, "0.2.0")
    copier.run_update(seg, defaults=True, overwrite=True, quiet=True)
    assert "*.npz binary" in (seg / ".gitattributes").read_text()
    assert git(seg, "ls-files", "-u") == ""
    assert (seg / "README.md").read_text() == REPOSITORY["README.md"]
