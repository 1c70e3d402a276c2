"""The DataModule: images of a bright spot in one of four corners."""

from typing import Any

import torch
from lightning import LightningDataModule
from torch.utils.data import DataLoader, Dataset, TensorDataset, random_split


class SpotsDataModule(LightningDataModule):
    def __init__(
        self,
        data_dir: str = "data/",
        train_val_test_split: tuple[int, int, int] = (160, 48, 48),
        batch_size: int = 16,
        num_workers: int = 0,
        pin_memory: bool = False,
        shuffle: bool = True,
    ) -> None:
        super().__init__()
        self.save_hyperparameters(logger=False)
        self.data_train: Dataset | None = None
        self.data_val: Dataset | None = None
        self.data_test: Dataset | None = None
        self.batch_size_per_device = batch_size

    @property
    def num_classes(self) -> int:
        return 4

    def prepare_data(self) -> None:
        """Nothing is downloaded."""

    def setup(self, stage: str | None = None) -> None:
        if self.trainer is not None:
            self.batch_size_per_device = self.hparams.batch_size // self.trainer.world_size
        if not self.data_train and not self.data_val and not self.data_test:
            self.data_train, self.data_val, self.data_test = random_split(
                dataset=spots(sum(self.hparams.train_val_test_split)),
                lengths=self.hparams.train_val_test_split,
                generator=torch.Generator().manual_seed(42),
            )

    def loader(self, dataset: Dataset, shuffle: bool) -> DataLoader[Any]:
        return DataLoader(
            dataset=dataset,
            batch_size=self.batch_size_per_device,
            num_workers=self.hparams.num_workers,
            pin_memory=self.hparams.pin_memory,
            shuffle=shuffle,
        )

    def train_dataloader(self) -> DataLoader[Any]:
        return self.loader(self.data_train, self.hparams.shuffle)

    def val_dataloader(self) -> DataLoader[Any]:
        return self.loader(self.data_val, False)

    def test_dataloader(self) -> DataLoader[Any]:
        return self.loader(self.data_test, False)

    def state_dict(self) -> dict[Any, Any]:
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        pass


def spots(n: int) -> TensorDataset:
    generator = torch.Generator().manual_seed(7)
    label_N = torch.randint(4, (n,), generator=generator)
    image_NHW = 1.5 * torch.randn(n, 8, 8, generator=generator)
    for image_HW, label in zip(image_NHW, label_N, strict=True):
        row, column = divmod(int(label), 2)
        image_HW[4 * row : 4 * row + 4, 4 * column : 4 * column + 4] += 0.5
    return TensorDataset(image_NHW, label_N)
