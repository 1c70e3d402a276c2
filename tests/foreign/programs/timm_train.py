"""The options of timm's train.py: a YAML file whose values become defaults, lists, switches of three kinds."""

import argparse
import json

import torch
import yaml
from torch import nn


class ParseKwargs(argparse.Action):
    def __call__(self, parser, namespace, values, option_string=None):
        pairs = (value.split("=") for value in values)
        setattr(namespace, self.dest, {key: yaml.safe_load(value) for key, value in pairs})


config_parser = parser = argparse.ArgumentParser(description="Training Config", add_help=False)
parser.add_argument("-c", "--config", default="", type=str, metavar="FILE")

parser = argparse.ArgumentParser(description="PyTorch ImageNet Training")
group = parser.add_argument_group("Dataset parameters")
parser.add_argument("data", nargs="?", metavar="DIR", const=None)
group.add_argument("--input-size", default=None, nargs=3, type=int)
group.add_argument("-b", "--batch-size", type=int, default=128, metavar="N")
group.add_argument("--mean", type=float, nargs="+", default=None)
group = parser.add_argument_group("Model parameters")
group.add_argument("--model-kwargs", nargs="*", default={}, action=ParseKwargs)
group.add_argument("--lr", type=float, default=None, metavar="LR")
group.add_argument("--lr-base", type=float, default=0.1)
group.add_argument("--epochs", type=int, default=300)
group.add_argument("--decay-milestones", default=[90, 180, 270], type=int, nargs="+")
group.add_argument("--mixup", type=float, default=0.0)
group.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True)
group.add_argument("--pin-mem", action="store_true", default=False)
group.add_argument("--no-aug", action="store_false", dest="aug", default=True)
group.add_argument("--seed", type=int, default=42)


def _parse_args():
    args_config, remaining = config_parser.parse_known_args()
    if args_config.config:
        with open(args_config.config) as file:
            parser.set_defaults(**yaml.safe_load(file))
    args = parser.parse_args(remaining)
    return args, yaml.safe_dump(args.__dict__, default_flow_style=False)


def main():
    args, _ = _parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    x = torch.randn(64, 4)
    label = (x.sum(1) > 0).long()
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(**args.model_kwargs), nn.Linear(8, 2))
    lr = args.lr or args.lr_base * args.batch_size / 256
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, args.decay_milestones)
    data = torch.utils.data.TensorDataset(x, label)
    for _ in range(args.epochs):
        for x_B4, label_B in torch.utils.data.DataLoader(data, args.batch_size, shuffle=True):
            loss = nn.functional.cross_entropy(model(x_B4), label_B, label_smoothing=args.mixup)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print("loss", repr(loss.item()))
        scheduler.step()
    print("had", json.dumps(vars(args)))


if __name__ == "__main__":
    main()
