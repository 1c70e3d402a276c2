"""What an archive says about itself: RO-Crate metadata for programs, a README for people.

The metadata follow the profile Process Run Crate: each run is an action, with the code as its
instrument, settings and data as its objects, metrics and weights as its results.
"""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...env import FROZEN_LIBRARY
from ...machine.text_formats import counted
from ...machine.text_table import markdown_cell
from ...project import LIBRARY, Project
from ..files.code_section import library_name, library_of
from ..files.schema import Row
from ..read.run import Run

CONTEXT = [
    "https://w3id.org/ro/crate/1.1/context",
    "https://w3id.org/ro/terms/workflow-run/context",
]
CRATE_VERSION = "https://w3id.org/ro/crate/1.1"
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
OBJECTS = ("config.yaml", "overrides.txt", "env.txt")
RESULTS = ("metrics.jsonl", "summary.json", ".ckpt", ".distcp")
README = """# {runs} of {name}

Each directory below `runs/` holds the record of one run, its code as one commit of git, and its best weights.
`ro-crate-metadata.json` describes them for programs ([RO-Crate](https://w3id.org/ro/crate)).

## Verify

    sha256sum --check manifest-sha256.txt     # every byte, in this directory
    lab runs verify ARCHIVE.zip               # the record and the code of each run, in any project with `lab`

## Reproduce

In a clone of the project, unpack the archive somewhere, put the data into `data/`, then:

    lab runs reproduce PATH/runs/TRIAL/RUN --check

Without a clone, make one from the code of a run, which has no history:

    git init {package} && cd {package}
    git fetch PATH/runs/TRIAL/RUN/code.tree.bundle 'refs/runs/*:refs/runs/*'
    git checkout FETCH_HEAD   # the files of the commit that stands below
    make setup

Where labrig is not to be had any more: its files are in `code.{library}.gz.bundle` of each run.
`gunzip -c <code.{library}.gz.bundle >library.bundle` makes a bundle of git of it. Fetch that into a
directory of its own, as above, and install the packages of `env.txt`.
Then `PYTHONPATH=DIRECTORY python -m labrig` is `lab`.

## Runs

| run | trial | commit | library | data (sha256) |
|---|---|---|---|---|
{lines}
"""


def format_readme(project: Project, rows: Sequence[Row]) -> str:
    lines = []
    for row in rows:
        run = Run.open(Path(row["run_dir"]))
        commit = run.record["code"].get("commit") or "not recorded"
        data = run.data.get("sha256") or "not recorded"
        library = library_name(run.record["code"])
        cells = (run.id, row["trial"], commit, library, data)
        lines.append(f"| {' | '.join(map(markdown_cell, cells))} |")
    return README.format(
        runs=counted(len(rows), "run"),
        name=project.root.name,
        package=project.package,
        library=FROZEN_LIBRARY,
        lines="\n".join(lines),
    )


def format_crate(project: Project, rows: Sequence[Row], paths: list[str]) -> str:
    """The text of ro-crate-metadata.json of an archive with files at `paths`."""
    entities: dict[str, dict[str, Any]] = {}
    actions = []
    for row in rows:
        run = Run.open(Path(row["run_dir"]))
        for entity in describe_run(project, run, row, paths):
            entities.setdefault(entity["@id"], entity)
        actions.append({"@id": f"#run-{run.id}"})
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": f"{counted(len(rows), 'run')} of {project.root.name}",
        "description": "Trainings: records, code, best weights, and fingerprints of the data.",
        "datePublished": time.strftime("%Y-%m-%d"),
        "license": licence_of(project),
        "conformsTo": {"@id": PROFILE},
        "hasPart": [{"@id": path} for path in paths],
        "mentions": actions,
    }
    descriptor = {
        "@id": "ro-crate-metadata.json",
        "@type": "CreativeWork",
        "about": {"@id": "./"},
        "conformsTo": {"@id": CRATE_VERSION},
    }
    profile = {
        "@id": PROFILE,
        "@type": "CreativeWork",
        "name": "Process Run Crate",
        "version": "0.5",
    }
    parts = [{"@id": path, "@type": "File", "name": path.rpartition("/")[2]} for path in paths]
    graph = [descriptor, root, profile, *parts, *entities.values()]
    return json.dumps({"@context": CONTEXT, "@graph": graph}, indent=1)


def licence_of(project: Project) -> str:
    """The licence that pyproject.toml names."""
    try:
        settings = tomllib.loads((project.root / "pyproject.toml").read_text(encoding="utf-8"))
        return str(settings["project"]["license"])
    except (OSError, ValueError, LookupError):
        return "not stated"


def describe_run(project: Project, run: Run, row: Row, paths: list[str]) -> list[dict[str, Any]]:
    """The action that a run was, and its code, library, person and data."""
    folder = f"runs/{run.dir.parent.name}/{run.dir.name}/"
    own_paths = [path for path in paths if path.startswith(folder)]
    commit = run.record["code"].get("commit") or "not recorded"
    code: dict[str, Any] = {
        "@id": f"#code-{commit[:12]}",
        "@type": "SoftwareApplication",
        "name": project.package,
        "softwareVersion": commit,
    }
    library = describe_library(run)
    if library:
        code["softwareRequirements"] = {"@id": library[0]["@id"]}
    person = {"@id": f"#person-{row['who']}", "@type": "Person", "name": row["who"] or "unknown"}
    data = [*describe_data(run), *describe_weights(row)]
    is_done = row["status"] in ("finished", "trained")
    status = "CompletedActionStatus" if is_done else "FailedActionStatus"
    action = {
        "@id": f"#run-{run.id}",
        "@type": "CreateAction",
        "name": f"training {run.id} of {row['trial']}",
        "description": row["why"] or "a training",
        "instrument": {"@id": code["@id"]},
        "agent": {"@id": person["@id"]},
        "object": [{"@id": path} for path in own_paths if path.endswith(OBJECTS)]
        + [{"@id": entity["@id"]} for entity in data],
        "result": [{"@id": path} for path in own_paths if path.endswith(RESULTS)],
        "actionStatus": {"@id": f"http://schema.org/{status}"},
    }
    moments = {"startTime": row["started_unix_s"], "endTime": row["ended_unix_s"]}
    for key, unix_s in moments.items():
        if unix_s is not None:
            action[key] = datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="seconds")
    if row["exception"]:
        action["error"] = row["exception"]
    return [action, code, *library, person, *data]


def describe_library(run: Run) -> list[dict[str, Any]]:
    """The library that a run was made with; nothing when it was not recorded."""
    library = library_of(run.record["code"])
    if library is None:
        return []
    return [
        {
            "@id": f"#{LIBRARY.name}-{library['commit'][:12]}",
            "@type": "SoftwareApplication",
            "name": LIBRARY.name,
            "softwareVersion": library["version"],
        }
    ]


def describe_data(run: Run) -> list[dict[str, Any]]:
    """The fingerprint of the data of a run; nothing when it was not recorded."""
    data = run.data
    if "sha256" not in data:
        return []
    data_from = run.record.get("data_from") or {}
    name = Path(data.get("path") or "data").name
    entity = entity_of("data", name, data["sha256"], data_from.get("run"))
    entity["contentSize"] = str(data.get("size_bytes", ""))
    if data_from:
        entity["description"] = f"{data_from['file']} of run {data_from['run']}"
    return [entity]


def describe_weights(row: Row) -> list[dict[str, Any]]:
    """The weights that a run started from; nothing for random ones."""
    weights = row["init_from"] or {}
    if not weights.get("sha256"):
        return []
    name = f"weights {weights['source']}"
    return [entity_of("weights", name, weights["sha256"], weights.get("run"))]


def entity_of(kind: str, name: str, sha256: str, made_by: str | None) -> dict[str, Any]:
    """What a run read, by its content.

    Args:
        made_by: the id of the run that made it, if one did.
    """
    entity: dict[str, Any] = {
        "@id": f"#{kind}-{sha256[:12]}",
        "@type": "CreativeWork",
        "name": name,
        "sha256": sha256,
    }
    if made_by:
        entity["isBasedOn"] = {"@id": f"#run-{made_by}"}
    return entity
