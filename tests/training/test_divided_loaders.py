"""An evaluation on several processes counts each sample once, and its numbers are those of one process."""

import json

import pytest
import torch
from labrig.data import H5Dataset, read_layout
from labrig.training.lightning_internals_evaluation import SampleShare, SharedBatches
from projects import call
from torch.utils.data import RandomSampler, SequentialSampler, WeightedRandomSampler
from trainings import SHORT, add_trial, last


def batches_of(sampler, batch_size, world_size, drop_last=False):
    """The batches of each process."""
    of_ranks = []
    for rank in range(world_size):
        share = SampleShare(sampler, 0, rank, world_size)
        batches = SharedBatches(share, batch_size, drop_last)
        of_ranks.append(list(batches))
        assert len(of_ranks[-1]) == len(batches)
    return of_ranks


@pytest.mark.parametrize("n", [8, 9, 31, 32, 33, 100, 101])
@pytest.mark.parametrize("batch_size", [2, 4, 50])
@pytest.mark.parametrize("world_size", [2, 3, 8])
def test_each_sample_comes_once_in_as_many_batches_on_each_process(n, batch_size, world_size):
    of_ranks = batches_of(SequentialSampler(range(n)), batch_size, world_size)
    samples = [sample for batches in of_ranks for batch in batches for sample in batch]
    assert sorted(samples) == list(range(n))
    assert len({len(batches) for batches in of_ranks}) == 1
    sizes = {len(batch) for batches in of_ranks for batch in batches}
    assert max(sizes) <= batch_size + 1
    assert min(sizes) >= 1


def test_single_samples_stay_single():
    of_ranks = batches_of(SequentialSampler(range(5)), 1, 2)
    assert of_ranks == [[[0], [2], [4]], [[1], [3]]]


def test_what_one_process_would_drop_is_dropped():
    of_ranks = batches_of(SequentialSampler(range(11)), 4, 2, drop_last=True)
    samples = [sample for batches in of_ranks for batch in batches for sample in batch]
    assert sorted(samples) == list(range(8))


@pytest.mark.parametrize(
    "sampler",
    [RandomSampler(range(20)), WeightedRandomSampler(torch.arange(1.0, 21), 20, replacement=False)],
)
def test_processes_draw_the_same_order(sampler):
    """Each with a generator of its own: they are at different places."""
    of_ranks = []
    for rank in range(2):
        torch.manual_seed(rank)
        share = SampleShare(sampler, 3, rank, 2)
        share.set_epoch(4)
        of_ranks += list(share)
    assert sorted(of_ranks) == list(range(20))
    assert of_ranks != list(range(20))


TASK = """
import lightning.pytorch as L
import torch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, Subset, TensorDataset
from torchmetrics.classification import MulticlassAUROC, MulticlassAccuracy


class Many(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 3)
        self.acc = MulticlassAccuracy(3, average="micro")
        self.auroc = MulticlassAUROC(3)  # keeps all samples

    def loss(self, batch):
        x, y = batch
        score = self.net(x)
        return nn.functional.cross_entropy(score, y)

    def training_step(self, batch, batch_idx):
        return self.loss(batch)

    def validation_step(self, batch, batch_idx):
        x, y = batch
        score = self.net(x)
        loss = nn.functional.cross_entropy(score, y)
        self.acc(score, y)
        self.auroc.update(score, y)
        self.log("own_loss", loss, on_step=True, on_epoch=True, sync_dist=True)
        self.log("largest", y.max().float(), reduce_fx="max", sync_dist=True)
        self.log("acc", self.acc)
        self.log("auroc", self.auroc)
        everybodys = self.all_gather(y.sum())  # waits for the other process in each step
        self.log("waited", float(everybodys.numel() > 0), sync_dist=True)
        return {"loss": loss, "right": (score.argmax(1) == y).float().mean()}

    test_step = validation_step

    def forward(self, x):
        return self.net(x)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Batches:
    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        return iter(self.batches)


class Rows(L.LightningDataModule):
    def __init__(self, n=199, kind=""):
        super().__init__()
        self.n = n
        self.kind = kind

    def setup(self, stage):
        generator = torch.Generator().manual_seed(0)
        self.stage = stage
        x = torch.randn(self.n, 4, generator=generator)
        self.rows = TensorDataset(x, x[:, :3].argmax(1))

    def train_dataloader(self):
        return DataLoader(self.rows, batch_size=20)

    def val_dataloader(self):
        return DataLoader(self.rows, batch_size=50, shuffle=True)

    def test_dataloader(self):
        assert self.stage == "test"
        if self.kind == "padded":
            sampler = DistributedSampler(self.rows, shuffle=False)
            return DataLoader(self.rows, batch_size=50, sampler=sampler)
        if self.kind == "iterable":
            return Batches(list(DataLoader(self.rows, batch_size=50)))
        return DataLoader(self.rows, 50, shuffle=self.kind == "shuffled")
"""
CONFIG = """
defaults:
  - override /data: many
task:
  _target_: .task.Many
checkpoint:
  monitor: null
"""
DATA = "_target_: myproj.trials.many.task.Rows\nn: 199\nkind: ''\n"


@pytest.fixture(scope="module")
def many(home):
    """A run over DataLoaders of its own, of 199 samples in batches of 50."""
    (home / "src/myproj/conf/data/many.yaml").write_text(DATA)
    add_trial(home, "many", config_yaml=CONFIG, task_py=TASK)
    call(home, "lab", "train", "trial=many", *SHORT)
    return last(home)


def evaluated(home, run, *settings, **options):
    printed = call(home, "lab", "eval", run["run_id"], *settings, "--json", **options)
    (line,) = [line for line in printed.splitlines() if line.startswith("{")]
    return json.loads(line), printed


@pytest.mark.parametrize(
    "n",
    [199, 101, 2],
)
@pytest.mark.release
def test_two_processes_evaluate_as_one(home, many, n):
    """101 samples in batches of 50: a process would have a batch more than the other."""
    one, _ = evaluated(home, many, f"data.n={n}")
    two, said = evaluated(home, many, f"data.n={n}", "trainer.devices=2", timeout_s=180)
    assert two == pytest.approx(one, rel=1e-6)
    assert {"own_loss_epoch", "acc", "auroc", "largest", "test/loss", "test/right"} <= set(one)
    assert "replicates" not in said


@pytest.mark.release
@pytest.mark.parametrize("n_processes", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_the_test_samples_of_any_data_module_are_predicted_once(home, many, n_processes):
    file = home / f"many-{n_processes}.h5"
    words = (many["run_id"], f"trainer.devices={n_processes}", "--to", file)
    assert "199 samples" in call(home, "lab", "predict", *words, timeout_s=180)
    layout = read_layout(file)
    rows, scores = H5Dataset(layout, "test", ["row", "prediction"]).__getitems__(range(199))
    assert rows.tolist() == list(range(199))
    weights = torch.load(f"{many['run_dir']}/checkpoints/last.ckpt", weights_only=True)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(199, 4, generator=generator)
    net = weights["state_dict"]
    torch.testing.assert_close(scores, x @ net["net.weight"].T + net["net.bias"])


@pytest.mark.release
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("padded", "test: the DistributedSampler of the data counts 1 sample twice"),
        ("iterable", "test: each process reads all that Batches gives, unless it divides"),
    ],
)
def test_what_counts_twice_nevertheless_is_said(home, many, kind, expected):
    _, said = evaluated(home, many, f"data.kind={kind}", "trainer.devices=2", timeout_s=180)
    assert said.count(expected) == 1


@pytest.mark.release
@pytest.mark.slow
def test_shuffled_data_are_divided_too(home, many):
    one, _ = evaluated(home, many)
    two, _ = evaluated(home, many, "data.kind=shuffled", "trainer.devices=2", timeout_s=180)
    assert two == pytest.approx(one, rel=1e-6)


@pytest.mark.release
@pytest.mark.slow
def test_fewer_samples_than_processes_are_refused(home, many):
    words = ("data.n=1", "trainer.devices=2")
    said = call(home, "lab", "eval", many["run_id"], *words, rc=2, timeout_s=180)
    assert "the test data have 1 sample for 2 processes, and each needs one" in said


@pytest.mark.release
@pytest.mark.slow
def test_a_training_on_two_processes_validates_each_sample_once(home, many):
    """The validation of the run on two processes is the test of its weights on one."""
    call(home, "lab", "train", "trial=many", *SHORT, "trainer.devices=2", timeout_s=300)
    two = last(home)
    one, _ = evaluated(home, two)
    assert two["metrics"]["val/loss"] == pytest.approx(one["test/loss"], rel=1e-6)
    assert two["metrics"]["test/loss"] == pytest.approx(one["test/loss"], rel=1e-6)
