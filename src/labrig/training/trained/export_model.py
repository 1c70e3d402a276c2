"""`lab runs export-model`: the weights of a run as a folder that needs neither labrig nor the project.

A model card goes with them.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import yaml
from omegaconf import OmegaConf
from torch import Tensor, nn

from ...errors import Failed, LabError, require_package
from ...failure import message_of
from ...hdf5.file.tokens import Tokenizer
from ...machine.hub import PACKAGES, SCHEME, HubFile
from ...machine.secrets import refuse_tokens_in
from ...machine.text_table import markdown_cell
from ...project import Project
from ...record.files.atomic import write_file
from ...record.files.code_section import library_name
from ...record.keep.archive_crate import licence_of
from ...record.read.find import find_run, run_parser
from ...record.read.rows import read_row
from ...record.read.run import Run, run_roots
from ...record.read.status import weights_of_numbers
from ...record.reproduce.recorded_inputs import format_weights, recorded_weights
from ...record.reproduce.today import config_of_today
from ..parts.build import build_data
from .load import load, saved_statistics
from .predictable import own_data

BATCH = ({0: torch.export.Dim.AUTO},)  # the first axis may have any size
INPUTS = "inputs.json"
TOLERANCE = 1e-4  # of outputs, absolute and relative: other kernels round otherwise


def export_command(project: Project, args: list[str]) -> int:
    parser = run_parser(
        "export-model", "Writes weights, configuration and model card of a run into a folder."
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a new one")
    parser.add_argument(
        "--checkpoint", help="best, last or previous; default: of the run's numbers"
    )
    parser.add_argument("--onnx", action="store_true", help="model.onnx too, with the same outputs")
    parser.add_argument("--torch-export", action="store_true", help="model.pt2 too, as well")
    parser.add_argument("--push", metavar="hf:ORG/MODEL", help="upload it, as a private model")
    options = parser.parse_args(args)
    folder: Path = options.folder
    if folder.exists():
        raise LabError(f"{folder} is there already. Name a new folder: nothing is overwritten")
    require_package("safetensors", "lab runs export-model", PACKAGES)
    target = HubFile.parse(options.push) if options.push else None
    run = find_run(run_roots(project), options.run)
    checkpoint = options.checkpoint or weights_of_numbers(run.dir, run.checkpoints).stem
    network = load(run.dir, checkpoint)
    config: Any = OmegaConf.create(config_of_today(run, project))
    temporary = folder.with_name(f".{folder.name}.{os.urandom(4).hex()}")
    temporary.mkdir(parents=True)
    try:
        write_model(config, network, model_card(project, run, checkpoint), temporary)
        write_vocabulary(project, run, temporary)
        write_inputs(config, run, checkpoint, temporary)
        writers = {"model.onnx": write_onnx} if options.onnx else {}
        writers |= {"model.pt2": write_graph} if options.torch_export else {}
        x = example_of(config) if writers else None
        done = [write_checked(writers[name], network, x, temporary / name) for name in writers]
        os.replace(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    print(f"{folder}: {', '.join(sorted(path.name for path in folder.iterdir()))}")
    if target:
        push(folder, target, run)
    return 0 if all(done) else 1


def write_model(config: Any, network: nn.Module, card: str, folder: Path) -> None:
    """Weights, configuration and card; a model of transformers or PEFT writes its own two files."""
    from safetensors.torch import save_model  # an optional package

    texts = {"README.md": card, "config.yaml": OmegaConf.to_yaml(config, resolve=True)}
    save: Any = getattr(network, "save_pretrained", None)
    if save:
        save(folder)
    else:
        save_model(network, str(folder / "model.safetensors"))
        model = OmegaConf.to_container(config.model, resolve=True) if "model" in config else None
        texts["config.json"] = json.dumps({"model": model}, indent=1) + "\n"
    refuse_tokens_in(texts, "Take it out of the trial's README or the settings.")
    for name, text in texts.items():
        write_file(folder / name, text)


def write_vocabulary(project: Project, run: Run, folder: Path) -> None:
    """What the tokens mean that the network was given: the tokenizer's own file, or ours as JSON."""
    data = own_data(project, run)
    x = data.fields.get("x") if data else None
    tokenizer = Tokenizer.of(x.attrs) if x else None
    if tokenizer:
        text = tokenizer.content or json.dumps(tokenizer.attrs, ensure_ascii=False)
        write_file(folder / "tokenizer.json", text + "\n")


def write_inputs(config: Any, run: Run, checkpoint: str, folder: Path) -> None:
    """By what the inputs of the network were divided and standardised, which its weights do not hold."""
    standardize = {
        name: {key: value.tolist() for key, value in of_field.items()}
        for name, of_field in saved_statistics(run, checkpoint).items()
    }
    data: Any = OmegaConf.to_container(config.data, resolve=True)
    facts = {"scale": data.get("scale") or {}, "standardize": standardize}
    write_file(folder / INPUTS, json.dumps(facts, indent=1) + "\n")


def example_of(config: Any) -> Tensor:
    """Two samples as the network takes them: the first field of a batch of the data of the run."""
    data = build_data(config)
    data.prepare_data()
    data.setup("fit")
    batch = data.on_after_batch_transfer(next(iter(data.val_dataloader())), 0)
    return (batch[0] if isinstance(batch, list | tuple) else batch)[:2]


def write_checked(
    write: Callable[..., Callable[..., Any]], network: nn.Module, x: Any, file: Path
) -> bool:
    """Writes a graph of the network, which must give the same outputs; else a line says why there is none.

    Args:
        write: writes the file, and gives the function that it holds.
        x: a batch of two samples; one sample is tried too.
    """
    try:
        with torch.no_grad():
            graph = write(network, x, file)
            for part in (x, x[:1]):
                given, wanted = tensors_in(graph(part)), tensors_in(network(part))
                torch.testing.assert_close(given, wanted, rtol=TOLERANCE, atol=TOLERANCE)
    except Exception as error:  # whatever a network does that cannot be exported
        for part in file.parent.glob(f"{file.name}*"):
            part.unlink()
        print(f"{file.name} is not there: {message_of(error).strip().splitlines()[0]}")
        return False
    print(f"{file.name}: its outputs are those of the network")
    return True


def tensors_in(output: Any) -> list[Tensor]:
    """The tensors of an output, in order."""
    if isinstance(output, Tensor):
        return [output]
    values = output.values() if hasattr(output, "values") else output
    return [tensor for value in values if value is not None for tensor in tensors_in(value)]


def write_graph(network: nn.Module, x: Tensor, file: Path) -> Callable[[Tensor], Any]:
    torch.export.save(torch.export.export(network, (x,), dynamic_shapes=BATCH), file)
    return torch.export.load(file).module()


def write_onnx(network: nn.Module, x: Tensor, file: Path) -> Callable[[Tensor], Any]:
    for package in ("onnx", "onnxruntime", "onnxscript"):
        require_package(package, "--onnx", "onnx onnxruntime onnxscript")
    import onnxruntime  # an optional package

    torch.onnx.export(network, (x,), file, dynamo=True, dynamic_shapes=BATCH, verbose=False)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    (name,) = [each.name for each in session.get_inputs()]
    return lambda part: [torch.from_numpy(y) for y in session.run(None, {name: part.numpy()})]


def push(folder: Path, target: HubFile, run: Run) -> None:
    """Uploads a folder as a model of the hub, which is made, private, if there is none."""
    require_package("huggingface_hub", "--push", PACKAGES)
    from huggingface_hub import HfApi  # an optional package

    try:
        HfApi().create_repo(target.repo, private=True, exist_ok=True)
        done = HfApi().upload_folder(
            repo_id=target.repo, folder_path=folder, revision=target.revision,
            commit_message=f"run {run.id}",
        )  # fmt: skip
    except Exception as error:  # the hub's own, and those of the client below it
        reason = str(error).strip().splitlines()[0]
        raise Failed(
            f"{folder} is written, and not pushed to {target.repo}: {reason}. Is HF_TOKEN set?"
        ) from error
    print(f"pushed: {done}. A new model is private, until its page on the hub makes it public")


CARD = """---
{head}---

# {run.trial} of {project.root.name}

{readme}

## How it was made

Weights `{checkpoint}` of run {run.id}.

what | value
-|-
{facts}

## Citation

```
{citation}
```
"""


def model_card(project: Project, run: Run, checkpoint: str) -> str:
    """README.md of an exported model, from the README of its trial and the record of the run."""
    metrics = read_row(str(run.dir))["metrics"]
    names = [name for name in metrics if name.startswith(("val/", "test/"))]
    initial = recorded_weights(run)
    data = run.data
    content = f"{Path(data['path']).name}, sha256 {data['sha256']}" if "sha256" in data else None
    facts = {name: f"{metrics[name]:.6g}" for name in names} | {
        "settings that were typed": " ".join(run.record["command"].get("overrides", [])),
        "data": content or "not recorded",
        "inputs": f"as {run.config['data'].get('_target_')} gives them; scale and statistics: {INPUTS}",
        "began with": format_weights(initial) if initial else "random weights",
        "code": f"commit {run.record['code'].get('commit') or 'not recorded'}",
        "library": library_name(run.record["code"]),
        "licence": licence_of(project),
    }
    head = {"license": licence_of(project).lower(), "tags": ["labrig"]}
    if initial.get("source", "").startswith(SCHEME):
        head["base_model"] = HubFile.parse(initial["source"]).repo
    readme = text_of(project.source / "trials" / run.trial.partition("/")[0] / "README.md")
    return CARD.format(
        head=yaml.safe_dump(head),
        run=run,
        project=project,
        readme=readme.partition("\n")[2].strip(),
        checkpoint=checkpoint,
        facts="\n".join(f"{name} | {markdown_cell(value)}" for name, value in facts.items()),
        citation=text_of(project.root / "CITATION.cff") or "not stated",
    )


def text_of(path: Path) -> str:
    """The text of a file; "" where there is none."""
    return path.read_text(encoding="utf-8") if path.exists() else ""
