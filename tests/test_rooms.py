"""The core works without each of the rooms that hang on it, and asks them by name."""

import shutil

import pytest
from labrig import providers
from labrig.commands import list_commands
from labrig.providers import provided, rooms
from projects import call, copy_library
from repositories import write

# room -> what is deleted of the library
OPTIONAL = {
    "remote": ["remote"],
    "stores": ["remote/stores"],
    "adopt": ["trials/adopt"],
    "sweep": ["sweep"],
    "report": ["report"],
    "bench": ["bench"],
    "images": ["cluster/image"],
    "schedulers": [f"cluster/schedulers/{name}.py" for name in ("pbs", "lsf", "pjm", "gridengine")],
    "packers": [f"hdf5/pack/{name}.py" for name in ("audio", "pairs", "tables", "texts")],
    "loggers": ["training/loggers"],
    "notify": ["training/notify"],
}
COMMANDS = {  # a command of each
    "remote": "runs pull",
    "stores": "data push",
    "adopt": "adopt",
    "sweep": "sweep",
    "report": "report",
    "bench": "bench",
    "images": "image build",
    "loggers": "sync",
}


@pytest.fixture
def without(tmp_path):
    """without("sweep"): variables with which `lab` is a copy of the library that lacks a room."""

    def delete(room):
        copy = copy_library(tmp_path / "library")
        for name in OPTIONAL[room]:
            path = copy / "labrig" / name
            sections = path / "sections.py"  # conf/lab.yaml has its settings: they stay
            kept = sections.read_text() if sections.exists() else ""
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            if kept:
                write(path, {"__init__.py": "", "sections.py": kept})
        return {"PYTHONPATH": str(copy)}

    return delete


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize("room", OPTIONAL)
def test_the_core_works_without_a_room(room, without, home):
    library = without(room)
    command = COMMANDS.get(room)
    if command:
        assert "unknown command" in call(home, "lab", *command.split(), "x", rc=2, **library)
    words = ["trial=baseline", "trainer=cpu", "trainer.max_epochs=1", "trainer.threads=1"]
    call(home, "lab", "train", *words, **library)
    listed = call(home, "lab", "runs", "list", **library)
    assert "finished" in listed.splitlines()[1]
    script = call(home, "lab", "submit", *words, "site=workstation", "--dry-run", **library)
    assert script.startswith("#!/bin/bash")
    assert "no jobs" in call(home, "lab", "queue", **library)


def test_every_folder_that_is_named_in_rooms_is_there():
    names = {name for name, _ in rooms()}
    assert {"labrig.cluster", "labrig.record", "labrig.remote", "labrig.remote.stores"} <= names


def test_all_that_is_provided_can_be_imported():
    names = [name for _, module in rooms() for name, _ in getattr(module, "PROVIDES", ())]
    assert len(names) > 5
    assert len(set(names)) == len(names)
    assert all(callable(provided(name)) for name in names)
    assert provided("no such name") is None


def test_a_command_lies_where_its_name_says():
    folders = {command.words: command.module.split(".")[1] for command in list_commands()}
    names = {
        "record": ["runs list", "runs show", "runs prune", "runs reproduce", "runs table", ""],
        "cluster": ["submit", "queue", "logs", "cancel", "support", "shell"],
        "hdf5": ["data pack", "data info"],
    }
    assert all(folders[words] == folder for folder in names for words in names[folder])


def test_a_plug_in_provides_what_the_library_lacks(monkeypatch):
    class Plugin:
        value = "labrig.env"

    module = type("module", (), {"PROVIDES": [("who", "errors:nearest")]})
    monkeypatch.setattr(providers, "plugins", lambda group: [Plugin] * (group == "providers"))
    monkeypatch.setattr(providers, "load_plugin", lambda _: module)
    providers._places.cache_clear()
    assert provided("who").__name__ == "nearest"
    monkeypatch.undo()
    providers._places.cache_clear()
    assert provided("who") is None
