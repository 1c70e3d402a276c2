"""A script with the Trainer of Hugging Face: options from dataclasses, booleans that take a value."""

import json
from dataclasses import dataclass

import torch
from labrig.program import log
from labrig.program.huggingface import RecordCallback, last_checkpoint
from torch import nn
from transformers import HfArgumentParser, Trainer, TrainingArguments, set_seed


@dataclass
class ModelArguments:
    width: int = 8
    dropout: float = 0.2


class Net(nn.Module):
    def __init__(self, width, dropout):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(4, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, 2)
        )

    def forward(self, x, labels):
        score = self.layers(x)
        return {"loss": nn.functional.cross_entropy(score, labels), "logits": score}


def rows(n, seed):
    x = torch.randn(n, 4, generator=torch.Generator().manual_seed(seed))
    return [{"x": row, "labels": int(row.sum() > 0)} for row in x]


if __name__ == "__main__":
    parser = HfArgumentParser((ModelArguments, TrainingArguments))
    model_args, args = parser.parse_args_into_dataclasses()
    args.output_dir = str(log.checkpoints / "hf")
    torch.set_num_threads(1)
    set_seed(args.seed)
    trainer = Trainer(
        Net(model_args.width, model_args.dropout),
        args,
        train_dataset=rows(50, 0),
        eval_dataset=rows(20, 1),
        callbacks=[RecordCallback()],
    )
    trainer.train(resume_from_checkpoint=last_checkpoint(args.output_dir))
    trainer.evaluate()
    torch.save(trainer.model.state_dict(), "weights.pt")
    history = [
        {name: row[name] for name in ("step", "loss", "eval_loss", "epoch") if name in row}
        for row in trainer.state.log_history
    ]
    print("history", json.dumps(history))
    print("lr", args.learning_rate, "tqdm off", args.disable_tqdm)
