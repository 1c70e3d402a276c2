"""Batches of a DataModule as people write it: a DataLoader around tensors."""

import lightning.pytorch as L
import torch
from torch.utils.data import DataLoader, TensorDataset


class Points(L.LightningDataModule):
    """Two noisy rings of points in the plane, and which ring each lies on.

    Args:
        shuffle: in an order of its own; else as they lie.
    """

    def __init__(self, n=192, batch_size=16, shuffle=False):
        super().__init__()
        self.n = n
        self.batch_size = batch_size
        self.shuffle = shuffle

    def loader(self, seed, n, shuffle=False):
        # What the DataLoader draws does not come from the generator that the training draws from.
        generator = torch.Generator().manual_seed(seed)
        angle_N = 6.28 * torch.rand(n, generator=generator)
        ring_N = torch.randint(2, (n,), generator=generator)
        radius_N = 1 + ring_N + 0.3 * torch.randn(n, generator=generator)
        point_N2 = torch.stack([radius_N * angle_N.cos(), radius_N * angle_N.sin()], 1)
        points = TensorDataset(point_N2, ring_N)
        return DataLoader(points, self.batch_size, shuffle=shuffle, generator=generator)

    def train_dataloader(self):
        return self.loader(0, self.n, self.shuffle)

    def val_dataloader(self):
        return self.loader(1, 64)

    def test_dataloader(self):
        return self.loader(2, 64)


class NamedLoaders(Points):
    """A dict of two loaders of unequal length; the shorter one begins again."""

    def train_dataloader(self):
        return {
            "labelled": self.loader(0, self.n, self.shuffle),
            "unlabelled": self.loader(3, 80, self.shuffle),
        }
