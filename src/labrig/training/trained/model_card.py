"""The model card of a run: what others must know of weights that leave the house."""

from __future__ import annotations

from pathlib import Path

import yaml

from ...machine.cells import markdown_cell
from ...machine.hub import SCHEME, HubFile
from ...project import Project
from ...record.files.code_section import library_name
from ...record.keep.archive_crate import licence_of
from ...record.read.rows import read_row
from ...record.read.run import Run
from ...record.reproduce.recorded_weights import format_weights, recorded_weights

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
