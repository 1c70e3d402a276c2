"""Texts of unequal length: an own collate function, packed sequences, and metrics of torchmetrics."""

import lightning.pytorch as L
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset
from torchmetrics import MeanMetric, MetricCollection
from torchmetrics.classification import MulticlassAccuracy, MulticlassF1Score

N_WORDS, N_CLASSES = 20, 3


class Texts(Dataset):
    """Sentences of 3 to 12 words; the class is that of their most frequent kind of word."""

    def __init__(self, n, seed):
        generator = torch.Generator().manual_seed(seed)
        lengths = torch.randint(3, 13, (n,), generator=generator).tolist()
        self.texts = [torch.randint(1, N_WORDS, (n,), generator=generator) for n in lengths]
        self.labels = [int((text % N_CLASSES).bincount().argmax()) for text in self.texts]

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        return {"tokens": self.texts[i], "label": self.labels[i]}


def collate(samples):
    tokens = [sample["tokens"] for sample in samples]
    return {
        "tokens": pad_sequence(tokens, batch_first=True),
        "lengths": torch.tensor([len(text) for text in tokens]),
        "labels": torch.tensor([sample["label"] for sample in samples]),
    }


class TextData(L.LightningDataModule):
    def __init__(self, batch_size=8, shuffle=False):
        super().__init__()
        self.batch_size = batch_size
        self.shuffle = shuffle

    def setup(self, stage=None):
        self.parts = {"train": Texts(100, 0), "val": Texts(30, 1), "test": Texts(30, 2)}

    def loader(self, part, shuffle=False):
        return DataLoader(
            self.parts[part],
            self.batch_size,
            shuffle=shuffle,
            collate_fn=collate,
            generator=torch.Generator().manual_seed(5),
        )

    def train_dataloader(self):
        return self.loader("train", self.shuffle)

    def val_dataloader(self):
        return self.loader("val")

    def test_dataloader(self):
        return self.loader("test")


class TextClassifier(L.LightningModule):
    def __init__(self, width=16, lr=0.01, dropout=0.3):
        super().__init__()
        self.save_hyperparameters()
        self.embedding = nn.Embedding(N_WORDS, width, padding_idx=0)
        self.dropout = nn.Dropout(dropout)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, N_CLASSES)
        metrics = MetricCollection(
            {"acc": MulticlassAccuracy(N_CLASSES), "f1": MulticlassF1Score(N_CLASSES)}
        )
        stages = ("train", "val", "test")
        self.metrics = nn.ModuleDict({f"{s}_": metrics.clone(prefix=f"{s}/") for s in stages})
        self.losses = nn.ModuleDict({f"{s}_": MeanMetric() for s in stages})

    def forward(self, batch):
        word_BTC = self.dropout(self.embedding(batch["tokens"]))
        packed = pack_padded_sequence(
            word_BTC, batch["lengths"].cpu(), batch_first=True, enforce_sorted=False
        )
        return self.head(self.gru(packed)[1][-1])

    def step(self, batch, stage):
        score_BK = self(batch)
        loss = nn.functional.cross_entropy(score_BK, batch["labels"])
        metrics = self.metrics[f"{stage}_"]
        metrics.update(score_BK, batch["labels"])
        self.losses[f"{stage}_"].update(loss, weight=len(batch["labels"]))
        size = {"batch_size": len(batch["labels"])}
        self.log_dict(metrics, on_step=False, on_epoch=True, **size)
        self.log(
            f"{stage}/loss_epoch", self.losses[f"{stage}_"], on_step=False, on_epoch=True, **size
        )
        return loss

    def training_step(self, batch, batch_idx):
        return self.step(batch, "train")

    def validation_step(self, batch, batch_idx):
        self.step(batch, "val")

    def test_step(self, batch, batch_idx):
        self.step(batch, "test")

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
