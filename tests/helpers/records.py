"""run.json of a run that nobody made, for tests that need no more of a run."""

from pathlib import Path

from labrig.record.files.atomic import FORMAT, write_json
from labrig.record.files.manifest import write_listed


def whole_record(run_id, trial="baseline", **facts):
    """A record with every key that it must have."""
    nothing = dict.fromkeys(
        ("parent", "why", "who", "created", "host", "template", "seed", "config_sha256")
    )
    empty = {name: {} for name in ("process", "code", "command", "env", "files")}
    about = {"format": FORMAT, "run_id": run_id, "trial": trial, "allow": None, "max_file_mb": None}
    return nothing | empty | about | facts


def write_record(run_dir, **facts):
    """run.json in the directory of a run."""
    run_dir = Path(run_dir)
    run_dir.mkdir(parents=True, exist_ok=True)
    write_json(run_dir / "run.json", whole_record(run_dir.name, **facts))


def relist(path, value):
    """Writes a file of a run, and lists it anew, as an enemy would."""
    run_dir = path.parents[2] if path.parent.parent.name == "attempts" else path.parent
    write_listed(run_dir, str(path.relative_to(run_dir)), value)
