"""profile=: each kind leaves a file that its tool opens, on the ranks that were asked for, and says how."""

import gzip
import json
import pstats
import re
import subprocess
import sys

import pytest
from projects import call
from trainings import add_trial

PROGRAM = """
import sys
sys.modules.update(dict.fromkeys(sys.argv[1:2], None))  # a package that is not installed
from labrig.cli import main
codes = [main(["train", *settings.split()]) for settings in sys.argv[2:]]
sys.exit(max(codes))
"""
SHORT = "trainer=cpu trainer.threads=1 trainer.max_epochs=1 trainer.test_after_fit=false"
MODEL = """
from torch import nn

from .helper import centred


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(64, 10)

    def forward(self, image_B1HW):
        flat = centred(image_B1HW.flatten(1))
        return self.head(flat)
"""
HELPER = """
from line_profiler import profile


@profile
def centred(x):
    mean = x.mean(1, keepdim=True)
    return x - mean
"""


@pytest.fixture(scope="module")
def profiled(home):
    """What was said by one process that trains under each profiler, and the run's folder of each kind."""
    add_trial(
        home,
        "net",
        config_yaml="model:\n  _target_: .model.Net\n",
        model_py=MODEL,
        helper_py=HELPER,
    )
    kinds = ("line", "simple", "torch", "memory", "cprofile")
    trainings = [f"trial=net {SHORT} profile={kind}" for kind in kinds]
    said = call(home, sys.executable, "-W", "ignore", "-c", PROGRAM, "nothing", *trainings)
    files = {kind: list((home / "runs/net").glob(f"*/profile/{kind}-rank0.*")) for kind in kinds}
    return said, {kind: file.parent for kind, (file,) in files.items()}


@pytest.mark.release
@pytest.mark.slow
def test_each_says_where_its_file_is_and_how_to_open_it(profiled):
    said, folders = profiled
    for kind, folder in folders.items():
        (file,) = folder.iterdir()
        assert re.fullmatch(rf"{kind}-rank0\.[a-z.]+", file.name), "no brackets, no blanks"
        assert f"profile: {file}\n  open it: " in said


@pytest.mark.release
@pytest.mark.slow
def test_lines_of_the_step_the_forward_the_data_path_and_what_is_marked(profiled):
    text = (profiled[1]["line"] / "line-rank0.txt").read_text()
    for line in (
        "score_BC = self.model(image_B1HW)",
        "flat = centred(image_B1HW.flatten(1))",
        "return image_B1HW.float() / 16, *labels",
        "mean = x.mean(1, keepdim=True)",
    ):
        hits, *_ = re.search(rf"^ *\d+ +(\d+) .*{re.escape(line)}", text, re.M).groups()
        assert int(hits) >= 23, f"{line}: once per batch"


@pytest.mark.slow
def test_marks_do_nothing_without_the_profiler(home, profiled):
    code = "from myproj.trials.net.helper import centred; print(hasattr(centred, '__wrapped__'))"
    assert "False" in call(home, sys.executable, "-c", code, PYTHONPATH=str(home / "src"))


@pytest.mark.slow
def test_torch_writes_a_table_and_a_trace_of_the_active_batches(profiled):
    said, folders = profiled
    with gzip.open(folders["torch"] / "torch-rank0.json.gz") as file:
        events = json.load(file)["traceEvents"]
    assert sum(event.get("name") == "aten::addmm" for event in events) == 5, (
        "one Linear in each of 5 batches"
    )
    table = said[said.index("operation  ") :].splitlines()[:13]
    assert all(len(line) <= 80 for line in table)
    assert any(re.match(r"aten::\w+ +\d+ +\d+\.\d\d$", line) for line in table)


@pytest.mark.slow
def test_other_files_are_read_by_their_tools(profiled):
    _, folders = profiled
    functions = {
        name for _, _, name in pstats.Stats(str(folders["cprofile"] / "cprofile-rank0.prof")).stats
    }
    assert {"training_step", "forward"} <= functions
    stats = [sys.executable, "-m", "memray", "stats", folders["memory"] / "memory-rank0.bin"]
    shown = subprocess.run(stats, capture_output=True, text=True, timeout=120)
    assert "Total allocations" in shown.stdout, shown.stderr
    assert "training_step" in (folders["simple"] / "simple-rank0.txt").read_text()


@pytest.mark.release
def test_chosen_ranks(home, profiled):
    before = set((home / "runs/net").iterdir())
    said = call(
        home,
        "lab",
        "train",
        "trial=net",
        *SHORT.split(),
        "trainer.devices=2",
        "profile=cprofile",
        "profile.ranks=[1]",
    )
    (run,) = set((home / "runs/net").iterdir()) - before
    assert [file.name for file in (run / "profile").iterdir()] == ["cprofile-rank1.prof"]
    assert said.count("open it: snakeviz") == 1


@pytest.mark.release
@pytest.mark.slow
def test_wrong_use(home, profiled):
    said = call(
        home, sys.executable, "-c", PROGRAM, "memray", f"trial=net {SHORT} profile=memory", rc=1
    )
    assert "profile=memory needs the package memray: make add PACKAGE=memray" in said
    assert "Options of profile: cprofile, line" in call(
        home, "lab", "train", "trial=net", "profile=tensor", rc=2
    )
    assert "profile.ranks" in call(
        home, "lab", "train", "trial=net", "profile=line", "profile.rank=[1]", rc=2
    )
    few = call(
        home,
        "lab",
        "train",
        "trial=net",
        *SHORT.split(),
        "profile=torch",
        "trainer.limit_train_batches=12",
    )
    assert "nothing was recorded" in few
    assert "open it" not in few
