"""The page of exercises: each program is slow where the solution says, and the solution computes the same."""

import re

import numpy as np
import pytest
import torch
from myproj.data import Digits
from projects import ROOT, call

pytestmark = pytest.mark.slow
PAGE = (ROOT / "docs/exercises.md").read_text(encoding="utf-8")
SLOW_DATA, FAST_LINES, SLOW_FORWARD, COPIES, BITS, CHANNELS = re.findall(
    r"^```python\n(.*?)^```$", PAGE, re.S | re.M
)
SHORT = ("profile=line", "trainer.max_steps=20", "trainer.test_after_fit=false")
LAST_LINE = "        return self.head(self.features(image_B1HW))\n"


@pytest.fixture(scope="module")
def trial(home):
    """The directory of the trial that the page makes."""
    call(home, "lab", "trials", "new", "slow", "--from", "baseline", "--no-check")
    return home / "src/myproj/trials/slow"


def slowest_line(home, function):
    """The line of `function` that took the most time in the newest run of the trial."""
    newest = max((home / "runs/slow").glob("*/profile/line-rank0.txt"))
    section = newest.read_text().partition(f"Function: {function} ")[2].partition("Total time")[0]
    # Line, hits, time, per hit, per cent, contents
    rows = re.findall(r"^ +\d+ +(\d+) +\S+ +\S+ +([\d.]+)  (.+)$", section, re.MULTILINE)
    return max(rows, key=lambda row: float(row[1]))


@pytest.mark.release
def test_the_slow_line_of_the_data_is_the_one_that_is_called_for_each_pixel(home, trial):
    (trial / "data.py").write_text(SLOW_DATA)
    call(home, "lab", "train", "trial=slow", "data._target_=.data.NoisyDigits", *SHORT)
    hits, _, line = slowest_line(home, "NoisyDigits.transform")
    assert "np.clip" in line
    assert int(hits) > 10 * 64 * 64, "more than ten batches"


@pytest.mark.release
def test_the_slow_line_of_the_model_is_the_one_in_the_loop(home, trial):
    model = (trial / "model.py").read_text()
    assert LAST_LINE in model
    (trial / "model.py").write_text(model.replace(LAST_LINE, SLOW_FORWARD))
    call(home, "lab", "train", "trial=slow", *SHORT)
    _, percent, line = slowest_line(home, "CNN.forward")
    assert "scores.append" in line
    assert float(percent) > 50


def test_the_solution_makes_the_same_images():
    batch = (torch.randint(0, 17, (64, 1, 8, 8), dtype=torch.uint8), torch.arange(64))
    head, replaced, _ = SLOW_DATA.partition("        noisy = ")
    assert replaced
    images = []
    for text in (SLOW_DATA, head + FAST_LINES):
        names = {"Digits": Digits}
        exec(text.replace("from ...data import Digits", ""), names)
        image, label = names["NoisyDigits"].transform(batch, np.random.default_rng(0))
        assert image.dtype == torch.uint8
        assert label is batch[1]
        images.append(image)
    assert torch.equal(*images)
    assert not torch.equal(images[0], batch[0])


def test_a_copy_moves_what_its_solution_says_and_waits_on_a_gpu(capsys):
    """The clock of a GPU is only read after it has finished; without a wait the work goes on."""
    names = {}
    exec(COPIES, names)
    assert [row[0] for row in names["rows"]] == [256, 1024, 2048]
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert all(copy_s > 0 for _, copy_s, *_ in names["rows"])
    products = [row[2] for row in names["rows"]]
    assert products[2] > 8 * products[0], "512 times the work"
    waits = []
    names["wait"] = lambda: waits.append("wait")
    names["seconds"](lambda: waits.append("work"), waits=True)
    assert waits == ["work", "wait", "work", "wait"]
    waits.clear()
    names["seconds"](lambda: waits.append("work"), waits=False)
    assert waits == ["work", "wait", "work"], "the careless clock stops before the device"


def test_about_half_is_kept_for_backward_in_16_bits():
    names = {}
    exec(BITS, names)
    full, mixed = (names["bytes_kept"](precision) for precision in ("32-true", "bf16-mixed"))
    assert 0.4 < mixed / full < 0.65
    assert full == 5 * 4096 * 512 * 4, "the input, and the output of each of four blocks"


def test_channels_last_changes_the_order_in_memory_and_not_the_result():
    names = {}
    exec(CHANNELS, names)
    usual, last = names["usual"], names["last"]
    assert usual.shape == last.shape
    assert torch.allclose(usual, last, atol=1e-4)
    assert last.is_contiguous(memory_format=torch.channels_last)
    assert not usual.is_contiguous(memory_format=torch.channels_last)
