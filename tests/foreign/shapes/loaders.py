"""Loaders of one's own: a module that makes its own (DQN), batches by length (speech), lists (detection)."""

import lightning.pytorch as L
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler


class ModuleLoaders(L.LightningDataModule):
    """As docs/from-lightning.md has it."""

    def __init__(self, shuffle=False):
        super().__init__()

    def train_dataloader(self):
        return self.trainer.lightning_module.train_dataloader()


class Steps(IterableDataset):
    """Moves in a made-up world: state, action, reward, next state."""

    def __iter__(self):
        generator = torch.Generator().manual_seed(3)
        for _ in range(96):
            state = torch.randn(4, generator=generator)
            action = torch.randint(2, (), generator=generator)
            yield state, action, (state.sum() > 0) == (action == 1), state.roll(1)


class Dqn(L.LightningModule):
    """With a second network that follows the first every few steps."""

    def __init__(self, lr=1e-2, gamma=0.9, sync_rate=5):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
        self.target_net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))

    def training_step(self, batch, batch_idx):
        states, actions, rewards, next_states = batch
        value_B = self.net(states).gather(1, actions[:, None]).squeeze(1)
        with torch.no_grad():
            next_B = self.target_net(next_states).max(1)[0]
        loss = nn.functional.mse_loss(value_B, rewards.float() + self.hparams.gamma * next_B)
        if self.global_step % self.hparams.sync_rate == 0:
            self.target_net.load_state_dict(self.net.state_dict())
        self.log_dict({"reward": rewards.float().mean(), "train_loss": loss})
        return loss

    def train_dataloader(self):
        return DataLoader(Steps(), batch_size=8, generator=torch.Generator().manual_seed(5))

    def configure_optimizers(self):
        return torch.optim.Adam(self.net.parameters(), lr=self.hparams.lr)


class Utterances(Dataset):
    def __init__(self, n, seed):
        generator = torch.Generator().manual_seed(seed)
        self.lengths = torch.randint(5, 20, (n,), generator=generator).tolist()
        self.sounds = [torch.randn(length, 3, generator=generator) for length in self.lengths]

    def __len__(self):
        return len(self.sounds)

    def __getitem__(self, i):
        return self.sounds[i], int(self.sounds[i].sum() > 0)


class Buckets(Sampler):
    """Batches of similar length: the longer the sounds, the fewer of them."""

    def __init__(self, lengths, n_frames=48):
        self.batches, batch = [], []
        for i in sorted(range(len(lengths)), key=lengths.__getitem__):
            if lengths[i] * (len(batch) + 1) > n_frames:
                self.batches.append(batch)
                batch = []
            batch.append(i)
        self.batches.append(batch)

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        return iter(self.batches)


def time_first(samples):
    sounds, labels = zip(*samples, strict=True)
    lengths = torch.tensor([len(sound) for sound in sounds])
    return nn.utils.rnn.pad_sequence(list(sounds)), lengths, torch.tensor(labels)


class Speech(L.LightningDataModule):
    def __init__(self, shuffle=False):
        super().__init__()

    def loader(self, n, seed):
        sounds = Utterances(n, seed)
        sampler = Buckets(sounds.lengths)
        generator = torch.Generator().manual_seed(5)
        return DataLoader(sounds, batch_sampler=sampler, collate_fn=time_first, generator=generator)

    def train_dataloader(self):
        return self.loader(60, 0)

    def val_dataloader(self):
        return self.loader(20, 1)

    def test_dataloader(self):
        return self.loader(30, 2)


class Recogniser(L.LightningModule):
    def __init__(self, lr=1e-2):
        super().__init__()
        self.save_hyperparameters()
        self.gru = nn.GRU(3, 8)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(8, 2)

    def loss(self, batch):
        x_TBF, lengths, label_B = batch
        packed = nn.utils.rnn.pack_padded_sequence(x_TBF, lengths, enforce_sorted=False)
        return nn.functional.cross_entropy(self.head(self.drop(self.gru(packed)[1][-1])), label_B)

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("train_loss", loss, on_epoch=True, on_step=False, batch_size=len(batch[2]))
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.loss(batch), batch_size=len(batch[2]))

    def test_step(self, batch, batch_idx):
        self.log("test_loss", self.loss(batch), batch_size=len(batch[2]))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)


class Pictures(Dataset):
    """Pictures of two sizes, each with any number of boxes."""

    def __len__(self):
        return 24

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(i)
        picture = torch.randn(1, 8 + 4 * (i % 2), 8, generator=generator)
        return picture, {"boxes": torch.rand(i % 3, 4, generator=generator)}


def as_lists(samples):
    return tuple(zip(*samples, strict=True))


class Boxes(L.LightningDataModule):
    def __init__(self, shuffle=False):
        super().__init__()
        self.shuffle = shuffle

    def train_dataloader(self):
        generator = torch.Generator().manual_seed(5)
        return DataLoader(
            Pictures(), 4, shuffle=self.shuffle, collate_fn=as_lists, generator=generator
        )

    def test_dataloader(self):
        return DataLoader(Pictures(), 5, collate_fn=as_lists)


class Detector(L.LightningModule):
    """Several losses in a dict, from lists of pictures and targets; gradients gathered by hand."""

    def __init__(self, n_gathered=3):
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        self.backbone = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.head = nn.Linear(4, 5)

    def losses(self, pictures, targets):
        found = torch.stack([self.head(self.backbone(one[None]).flatten()) for one in pictures])
        n = torch.tensor([float(len(target["boxes"])) for target in targets])
        middle = torch.stack([target["boxes"].sum(0) for target in targets])
        return {"n": (found[:, 0] - n).square().mean(), "box": (found[:, 1:] - middle).abs().mean()}

    def training_step(self, batch, batch_idx):
        losses = self.losses(*batch)
        loss = losses["n"] + losses["box"]
        self.manual_backward(loss / self.hparams.n_gathered)
        self.log_dict({f"train_{name}": one.detach() for name, one in losses.items()}, batch_size=4)
        if (batch_idx + 1) % self.hparams.n_gathered == 0:
            self.optimizers().step()
            self.optimizers().zero_grad()
        return loss.detach()

    def test_step(self, batch, batch_idx):
        losses = self.losses(*batch)
        self.log_dict({f"test_{name}": x for name, x in losses.items()}, batch_size=len(batch[0]))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)
