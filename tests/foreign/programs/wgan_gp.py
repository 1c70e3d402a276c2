"""WGAN-GP as it is written on one page: no seed, options of argparse, losses printed."""

# ruff: noqa: NPY002

import argparse

import numpy as np
import torch
from torch import autograd, nn

parser = argparse.ArgumentParser()
parser.add_argument("--n_epochs", type=int, default=3)
parser.add_argument("--n_critic", type=int, default=3)
parser.add_argument("--b1", type=float, default=0.5)
opt = parser.parse_args()
print(opt)

torch.set_num_threads(1)
generator = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 2))
discriminator = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
optimizer_G = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(opt.b1, 0.999))
optimizer_D = torch.optim.Adam(discriminator.parameters(), lr=2e-3, betas=(opt.b1, 0.999))
points = torch.utils.data.TensorDataset(torch.randn(64, 2) + 2)
dataloader = torch.utils.data.DataLoader(points, batch_size=8, shuffle=True)


def compute_gradient_penalty(D, real, fake):
    alpha = torch.tensor(np.random.random((real.size(0), 1)), dtype=torch.float32)
    interpolates = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    score = D(interpolates)
    gradients = autograd.grad(score, interpolates, torch.ones_like(score), create_graph=True)[0]
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean()


for _epoch in range(opt.n_epochs):
    for i, (real,) in enumerate(dataloader):
        optimizer_D.zero_grad()
        z = torch.tensor(np.random.normal(0, 1, (real.shape[0], 4)), dtype=torch.float32)
        fake = generator(z)
        penalty = compute_gradient_penalty(discriminator, real, fake.detach())
        d_loss = discriminator(fake.detach()).mean() - discriminator(real).mean() + 10 * penalty
        d_loss.backward()
        optimizer_D.step()
        if i % opt.n_critic == 0:
            optimizer_G.zero_grad()
            g_loss = -discriminator(generator(z)).mean()
            g_loss.backward()
            optimizer_G.step()
        print("loss", repr(d_loss.item()), repr(g_loss.item()))
