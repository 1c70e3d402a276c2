"""Trains a network whose layers lie on several processes: while one works on a part of the batch, its
neighbours work on the parts before and after it."""

import multiprocessing
import tempfile
from pathlib import Path

import torch
from labrig.program import discover
from torch import Tensor, distributed, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn import functional as F

N_INPUTS, WIDTH, N_CLASSES = 16, 32, 4


def main(config, log) -> None:
    """Logs the loss of each step. In a job each of its processes is a stage; here they are started."""
    ranks = discover()
    if ranks.world_size > 1:
        meeting = f"tcp://{ranks.main_address}:{ranks.main_port}"
        train(ranks.rank, ranks.world_size, meeting, config, log)
        return
    n_stages = config.program.n_stages
    fork = multiprocessing.get_context("fork")  # they know what this process knows
    with tempfile.TemporaryDirectory() as folder:
        meeting = f"file://{Path(folder, 'meeting')}"
        others = [
            fork.Process(target=train, args=(n, n_stages, meeting, config, None), daemon=True)
            for n in range(1, n_stages)
        ]
        for process in others:
            process.start()
        train(0, n_stages, meeting, config, log)
        for process in others:
            process.join()


def train(n: int, n_stages: int, meeting: str, config, log) -> None:
    """Trains stage `n`. All stages know the loss; the first one has `log`."""
    settings = config.program
    has_gpus = torch.cuda.device_count() >= n_stages
    device = torch.device("cuda", n) if has_gpus else torch.device("cpu")
    torch.set_num_threads(1)
    distributed.init_process_group(
        "nccl" if has_gpus else "gloo", init_method=meeting, rank=n, world_size=n_stages
    )
    layers = own_layers(n, n_stages, settings.n_layers, config.seed).to(device)
    optimizer = torch.optim.Adam(layers.parameters(), settings.lr)
    stage = PipelineStage(layers, n, n_stages, device)
    schedule = Schedule1F1B(stage, settings.n_parts, loss_fn=F.cross_entropy)
    generator = torch.Generator().manual_seed(config.seed)
    for step in range(1, settings.n_steps + 1):
        x_BF, y_B = make_batch(settings.batch_size, generator)
        inputs = [x_BF.to(device)] if n == 0 else []
        losses: list[Tensor] = []
        target = {"target": y_B.to(device), "losses": losses} if n == n_stages - 1 else {}
        optimizer.zero_grad()
        schedule.step(*inputs, **target)
        optimizer.step()
        loss = torch.stack(losses).mean().detach() if losses else torch.zeros((), device=device)
        distributed.broadcast(loss, n_stages - 1)
        if log:
            log(step, {"loss": loss})
    distributed.destroy_process_group()


def own_layers(n: int, n_stages: int, n_layers: int, seed: int) -> nn.Sequential:
    """The layers of stage `n`. All stages draw the whole network, so that it has the same weights on
    any number of them. One that is too large is drawn layer by layer, each with a seed of its own."""
    torch.manual_seed(seed)
    inner = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(n_layers - 2)]
    layers = [nn.Linear(N_INPUTS, WIDTH), *inner, nn.Linear(WIDTH, N_CLASSES)]
    bounds = [round(i * n_layers / n_stages) for i in range(n_stages + 1)]
    return nn.Sequential(*layers[bounds[n] : bounds[n + 1]])


def make_batch(batch_size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Points (B, F), and which of their first coordinates is the largest (B,)."""
    x_BF = torch.randn(batch_size, N_INPUTS, generator=generator)
    return x_BF, x_BF[:, :N_CLASSES].argmax(1)
