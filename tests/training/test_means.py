"""Every recorded mean is the mean over the samples, recomputed here from what each step returned."""

import json
import multiprocessing
import os
import random
import re
from collections import defaultdict

import lightning.pytorch as L
import pytest
import torch
from attempts import attempt, attempts
from commands import free_port
from labrig.errors import Failed
from labrig.hdf5.read.loader import PRELOADED
from labrig.training.exact.plain_loaders import PlainLoaders
from labrig.training.watch.means import LogMeans
from lightning.pytorch.loggers.logger import DummyLogger
from ranks import run_ranks
from torch.utils.data import DataLoader

EVERY_N_STEPS = 3
SHAPES = ("rows", "time first", "texts", "images of any size", "points of graphs")
KEYS = ("loss", "acc", "now_and_then", "of_one_process", "number")


def value(sample, key):
    """What a sample contributes to a metric."""
    return random.Random(f"{sample} {key}").random()


def collate(shape, samples):
    """A batch as tasks of many fields make it; the ids of its samples go along as a list of texts."""
    ids = [str(sample) for sample in samples]
    n = len(samples)
    if shape == "rows":
        return {"x": torch.zeros(n, 3), "y": torch.zeros(n), "ids": ids}
    if shape == "time first":
        return {"x": torch.zeros(2 + max(samples), n), "lengths": torch.zeros(n), "ids": ids}
    if shape == "texts":
        return {"ids": ids}
    if shape == "points of graphs":
        return {"x": torch.zeros(sum(samples) + 1, 3), "ids": ids}
    return {"images": [torch.zeros(3, 2 + sample, 4) for sample in samples], "ids": ids}


class Batches:
    """Batches of any size, as a sampler of buckets cuts them; each process has its own."""

    def __init__(self, n, seed):
        self.n = n
        self.seed = seed

    def __iter__(self):
        draw = random.Random(self.seed)
        samples = list(range(self.n))
        while samples:
            size = draw.randint(1, 7)
            yield samples[:size]
            samples = samples[size:]

    def __len__(self):
        return sum(1 for _ in self)


class Data(L.LightningDataModule):
    def __init__(self, seed, loaders, workers=0):
        super().__init__()
        self.seed = seed
        self.loaders = loaders
        self.workers = workers

    def loader(self, n, stage):
        draw = random.Random(f"{self.seed} {stage} {n}")
        shape = draw.choice(SHAPES)
        n_processes = self.trainer.world_size
        samples = list(range(draw.randint(4, 40)))[self.trainer.global_rank :: n_processes]
        if stage == "train":
            samples = list(range(60))[self.trainer.global_rank :: n_processes]
        batches = Batches(len(samples), f"{self.seed} {n}")
        if n_processes > 1:  # as many batches on each
            batches = [samples[:3], samples[3:4], samples[4:]] if len(samples) > 4 else [samples]
            batches = [[samples.index(one) for one in batch] for batch in batches]
        return DataLoader(
            samples,
            batch_sampler=batches,
            collate_fn=Collate(shape),
            num_workers=self.workers,
            multiprocessing_context="forkserver" if self.workers else None,  # pickles all of it
        )

    def train_dataloader(self):
        return self.loader(0, "train")

    def of_stage(self, stage):
        loaders = [self.loader(n, stage) for n in range(self.loaders or 2)]
        if self.loaders == 1:
            return loaders[0]
        return loaders if self.loaders else {"clean": loaders[0], "noisy": loaders[1]}

    def val_dataloader(self):
        return self.of_stage("val")

    def test_dataloader(self):
        return self.of_stage("test")


class Collate:
    def __init__(self, shape):
        self.shape = shape

    def __call__(self, samples):
        return collate(self.shape, samples)


class Task(L.LightningModule):
    """Returns means of values that follow from the samples, and writes down what it returned."""

    def __init__(self, seed, file):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.seed = seed
        self.file = file

    def values(self, stage, batch, batch_idx, loader=0):
        ids = [int(one) for one in batch["ids"]]
        keys = self.keys(stage, batch_idx, loader)
        row = [stage, loader, self.trainer.current_epoch, batch_idx, ids, keys]
        with open(f"{self.file}-{self.global_rank}", "a") as file:
            file.write(json.dumps(row) + "\n")
        means = {
            key: torch.tensor(sum(value(one, key) for one in ids) / len(ids), dtype=torch.float64)
            for key in keys
        }
        if "number" in means:
            means["number"] = means["number"].item()
        return means

    def keys(self, stage, batch_idx, loader):
        draw = random.Random(f"{self.seed} {stage} {batch_idx} {loader}")
        keys = [key for key in KEYS if draw.random() < 0.7]
        if self.global_rank != 1 and "of_one_process" in keys:
            keys.remove("of_one_process")
        return keys

    def training_step(self, batch, batch_idx):
        means = self.values("train", batch, batch_idx)
        if "loss" not in means:
            means["loss"] = torch.zeros((), dtype=torch.float64)  # Lightning wants one
        return means | {"loss": means["loss"] + 0 * self.weight}

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        means = self.values("val", batch, batch_idx, dataloader_idx)
        return means or None

    def test_step(self, batch, batch_idx, dataloader_idx=0):
        return self.values("test", batch, batch_idx, dataloader_idx)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Rows(DummyLogger):
    """Writes the rows of the first process to a file."""

    def __init__(self, file):
        super().__init__()
        self.file = file
        self.is_first = os.environ.get("LOCAL_RANK", "0") == "0"

    def log_metrics(self, metrics, step=None):
        names = {name: float(one) for name, one in metrics.items() if "/" in name}
        if names and self.is_first:
            with open(self.file, "a") as file:
                file.write(json.dumps(names) + "\n")


def train(tmp_path, seed, loaders, n_processes, workers=0):
    """The rows that were logged, and what each step of each process returned."""
    arguments = (tmp_path, seed, loaders, n_processes, workers, free_port())
    if n_processes == 1:
        train_one(0, *arguments)
    else:
        run_ranks(train_one, *arguments, n_ranks=n_processes)
    returned = [
        json.loads(line)
        for rank in range(n_processes)
        for line in (tmp_path / f"returned-{rank}").read_text().splitlines()
    ]
    return [json.loads(line) for line in (tmp_path / "rows").read_text().splitlines()], returned


def train_one(rank, tmp_path, seed, loaders, n_processes, workers, port):
    """One process of a training."""
    if n_processes > 1:
        os.environ |= {"LOCAL_RANK": str(rank), "NODE_RANK": "0", "MASTER_PORT": str(port)}
    trainer = L.Trainer(
        accelerator="cpu",
        devices=n_processes,
        strategy="ddp" if n_processes > 1 else "auto",
        max_epochs=1 if workers else 2,
        log_every_n_steps=EVERY_N_STEPS,
        logger=Rows(tmp_path / "rows"),
        callbacks=[LogMeans(), PlainLoaders(seed)],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
    )
    task = Task(seed, str(tmp_path / "returned"))
    data = Data(seed, loaders, workers)
    trainer.fit(task, datamodule=data)
    trainer.test(task, datamodule=data, verbose=False)


def expected(batches, stage, names):
    """The means over the samples of the batches that had a key, one name for each loader."""
    samples = defaultdict(list)
    for _, loader, _, _, ids, keys in batches:
        for key in keys:
            samples[f"{stage}/{key}{names[loader]}"] += [value(one, key) for one in ids]
        if stage == "train" and "loss" not in keys:
            samples["train/loss"] += [0.0] * len(ids)
    return {name: sum(values) / len(values) for name, values in samples.items()}


CASES = [(seed, loaders, 1) for seed in range(8) for loaders in (1, 3, None)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("seed", "loaders", "n_processes"), [*CASES, (3, 1, 2), (4, 2, 2)])
def test_each_mean_is_over_the_samples_that_had_it(tmp_path, seed, loaders, n_processes):
    rows, returned = train(tmp_path, seed, loaders, n_processes)
    names = {1: [""], None: ["/clean", "/noisy"]}.get(loaders, ["/0", "/1", "/2"])
    for stage in ("train", "val", "test"):
        mine = [row for row in rows if any(name.startswith(f"{stage}/") for name in row)]
        batches = [row for row in returned if row[0] == stage]
        groups = defaultdict(list)
        for row in batches:
            if stage == "train":  # the rest of an epoch is a row of its own
                per_epoch = max(one[3] for one in batches) + 1
                step = row[2] * per_epoch + row[3]
                groups[row[2], step // EVERY_N_STEPS].append(row)
            else:
                groups[row[2]].append(row)
        of_stage = [""] if stage == "train" else names
        wanted = [expected(group, stage, of_stage) for _, group in sorted(groups.items())]
        assert len(mine) == len(wanted)
        for got, want in zip(mine, wanted, strict=True):
            assert got == pytest.approx(want, rel=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_samples_are_counted_where_workers_make_the_batches(tmp_path):
    multiprocessing.set_forkserver_preload([*PRELOADED, __name__])
    rows, returned = train(tmp_path, 2, 1, 1, workers=1)
    tested = [row for row in returned if row[0] == "test"]
    assert rows[-1] == pytest.approx(expected(tested, "test", [""]), rel=1e-6)


class ShortIntervals(L.LightningModule):
    """Its loss falls with each batch, so the last interval differs from the epoch."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))

    def training_step(self, batch, batch_idx):
        return {"loss": 0 * self.weight + 10.0 - batch_idx}

    def test_step(self, batch, batch_idx):
        return {"acc": 0.5}

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def test_the_record_has_the_epochs_loss_after_a_test(home, tmp_path):
    settings = ("trainer.max_epochs=1", "log.every_n_steps=10", "trainer.limit_train_batches=11")
    run = attempt(home, tmp_path, *settings, "task._target_=test_means.ShortIntervals")
    assert run.metrics["train/loss"] == pytest.approx(5.0)
    assert run.metrics["test/acc"] == 0.5


class ModuleLoader(L.LightningDataModule):
    """Validates on the object that it trains on."""

    def __init__(self, **_):
        super().__init__()
        self.samples = DataLoader(range(100), batch_size=10, shuffle=True)

    def train_dataloader(self):
        return self.samples

    val_dataloader = test_dataloader = train_dataloader


class Counts(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))

    def training_step(self, batch, batch_idx):
        return 0 * self.weight

    def validation_step(self, batch, batch_idx):
        self.log("val/n", float(len(batch)), reduce_fx="sum")

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.mark.slow
def test_a_validation_on_the_training_loader_has_all_its_samples(home, tmp_path):
    settings = ("trainer.max_epochs=2", "trainer.val_check_interval=0.5", "checkpoint.monitor=null")
    own = ("task._target_=test_means.Counts", "data._target_=test_means.ModuleLoader")
    whole = attempt(home, tmp_path / "whole", *settings, *own)
    parts = attempts(home, tmp_path / "parts", *settings, *own, stops=["train:3", "train:17"])
    for run in (whole, parts):
        assert [row["val/n"] for row in run.rows if "val/n" in row] == [100.0] * 4


UNKNOWN = [{"a": torch.zeros(7, 3), "b": torch.zeros(3)}, {"names": ["a", "b"]}]


class Unsized:
    """Batches of an iterable that is no DataLoader."""

    def __init__(self, batch):
        self.batch = batch

    def __iter__(self):
        return iter([self.batch] * 3)


class SaysSize(ShortIntervals):
    says = False

    def training_step(self, batch, batch_idx):
        size = {"batch_size": [1, 3, 2][batch_idx]} if self.says else {}
        return super().training_step(batch, batch_idx) | size


def short_trainer():
    return L.Trainer(
        accelerator="cpu",
        max_epochs=1,
        callbacks=[LogMeans(), PlainLoaders(0)],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        logger=False,
    )


@pytest.mark.parametrize("batch", UNKNOWN, ids=["tensors that disagree", "texts"])
@pytest.mark.parametrize("says", [False, True])
def test_the_run_asks_for_samples_that_nobody_has_counted(capsys, batch, says):
    task = SaysSize()
    task.says = says
    trainer = short_trainer()
    trainer.fit(task, Unsized(batch))
    asked = 'return {"loss": loss, "batch_size": n}' in capsys.readouterr().out
    assert asked is not says
    expected = {"train/loss": pytest.approx((10 + 3 * 9 + 2 * 8) / 6)} if says else {}
    found = {name: float(one) for name, one in trainer.callback_metrics.items()}
    assert {name: one for name, one in found.items() if "/" in name} == expected


def without_damaged(samples):
    return torch.tensor([sample for sample in samples if sample % 3])


def two_views(samples):
    return torch.tensor(samples + samples)


def images_of_any_size(samples):
    return [torch.full((3, 2, 2 + sample), sample) for sample in samples]


class MeanOfRows(ShortIntervals):
    def training_step(self, batch, batch_idx):
        means = torch.stack([row.float().mean() for row in batch])
        return {"loss": 0 * self.weight + means.mean()}


@pytest.mark.parametrize(
    ("collate_fn", "mean"), [(without_damaged, None), (two_views, 9.0), (images_of_any_size, 9.0)]
)
def test_samples_that_a_collate_fn_may_have_dropped_are_asked_for(capsys, collate_fn, mean):
    """The loader's 8 samples weighed a mean of the 5 that were left."""
    trainer = short_trainer()
    trainer.fit(MeanOfRows(), DataLoader(range(19), batch_size=8, collate_fn=collate_fn))
    assert ("rows of more samples" in capsys.readouterr().out) is (mean is None)
    assert trainer.callback_metrics.get("train/loss") == mean


class Returns(ShortIntervals):
    """Returns `more` next to its loss."""

    def __init__(self, more):
        super().__init__()
        self.more = more

    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) | self.more


@pytest.mark.parametrize(
    ("n", "found"),
    [(None, "a NoneType"), ("3", "a str"), (torch.ones(2), "a tensor (2,)"), (-1, "-1.0")],
)
def test_a_number_of_samples_that_is_none_is_refused(n, found):
    with pytest.raises(Failed, match=re.escape(f"a step returned {found} as batch_size. Expected")):
        short_trainer().fit(Returns({"batch_size": n}), DataLoader(range(3)))


def test_no_samples_at_all_are_told(capsys):
    short_trainer().fit(Returns({"batch_size": torch.zeros(())}), DataLoader(range(3)))
    told = "training_step: not recorded: loss. Its batch_size adds up to no samples"
    assert told in capsys.readouterr().out


def test_keys_that_are_no_texts_are_names_too():
    trainer = short_trainer()
    trainer.fit(Returns({0: 0.5, (1, "a"): 1.5, None: "no number"}), DataLoader(range(3)))
    assert trainer.callback_metrics["train/0"] == 0.5
    assert trainer.callback_metrics["train/(1, 'a')"] == 1.5


class OfLoaders(ShortIntervals):
    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        return {"x": batch.float().mean()}


def test_the_second_loader_has_its_name_where_the_first_is_empty():
    trainer = short_trainer()
    loaders = [DataLoader([]), DataLoader(torch.arange(5), batch_size=2)]
    trainer.fit(OfLoaders(), DataLoader(range(3)), loaders)
    found = {name: float(value) for name, value in trainer.callback_metrics.items()}
    assert {name: value for name, value in found.items() if "val" in name} == {"val/x/1": 2.0}
