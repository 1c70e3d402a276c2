"""A loop with accelerate, which keeps its state after each step and continues in the middle of an epoch."""

import argparse

import torch
from accelerate import Accelerator, skip_first_batches
from accelerate.utils import set_seed
from labrig.program import log
from labrig.program.accelerate import RecordTracker
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--epochs", type=int, default=3)
args = parser.parse_args()

torch.set_num_threads(1)
accelerator = Accelerator(cpu=True, log_with=[RecordTracker()])
accelerator.init_trackers("any name")
set_seed(0)
x = torch.randn(48, 4)
data = TensorDataset(x, (x.sum(1) > 0).long())
model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.Linear(8, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
order = torch.Generator()
loader = DataLoader(data, 4, shuffle=True, generator=order)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

folder = log.checkpoints / "state"
step_file = log.checkpoints / "step.txt"
done = 0
if step_file.exists():
    accelerator.load_state(str(folder))
    done = int(step_file.read_text())
n_batches = len(loader)
step = done
for epoch in range(done // n_batches, args.epochs):
    order.manual_seed(epoch)  # drawn from at the begin of an epoch
    loader.set_epoch(epoch)
    n_skipped = done % n_batches if epoch == done // n_batches else 0
    batches = skip_first_batches(loader, n_skipped) if n_skipped else loader
    for x_B4, label_B in batches:
        torch.manual_seed(1000 + step)  # of dropout
        loss = nn.functional.cross_entropy(model(x_B4), label_B)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        accelerator.save_state(str(folder))
        accelerator.wait_for_everyone()
        if accelerator.is_main_process:
            step_file.write_text(str(step))
        mean = accelerator.gather(loss.detach().reshape(1)).mean().item()
        accelerator.print("loss", step, repr(mean))
        accelerator.log({"loss": mean}, step)
accelerator.print("processes", accelerator.num_processes)
accelerator.end_training()
