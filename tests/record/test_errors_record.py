"""Messages about the project, its trials, runs and their record: each says what was found and what to do."""

import zipfile
from types import SimpleNamespace

import pytest
from labrig.errors import Failed, LabError, NotComparable, Refused
from labrig.machine import hub, ranks
from labrig.machine.git import Git, GitFailed
from labrig.project import Project, read_yaml
from labrig.record.compare.table import default_metrics
from labrig.record.freeze import snapshot
from labrig.record.freeze.bundle import BundleFile, write_bundle
from labrig.record.freeze.frozen import freeze_code, frozen_code
from labrig.record.keep import archive_check
from labrig.record.keep.archive_check import verify_archive
from labrig.record.list import curves as draw_curves
from labrig.record.list import curves as plot
from labrig.record.reproduce import command as reproduce
from labrig.trials import diff, drop, restore
from labrig.trials.diff import require_trials
from labrig.trials.drop import drop_trial
from labrig.trials.rename import rename_trial
from labrig.trials.restore import restore_trial
from repositories import git, write


def test_yaml_files_of_the_project(tmp_path):
    file = tmp_path / "a.yaml"
    with pytest.raises(LabError, match=r"a.yaml is missing. Bring it back: git checkout HEAD -- "):
        read_yaml(file)
    file.write_text("a: [\n")
    with pytest.raises(LabError, match=r"a.yaml:2:1 is not valid YAML: .*Correct that line"):
        read_yaml(file)
    file.write_text("- a\n")
    with pytest.raises(LabError, match=r"a.yaml holds a list, but must hold `key: value` lines"):
        read_yaml(file)


def test_packages_that_are_missing(monkeypatch, tmp_path):
    monkeypatch.setattr("labrig.errors.find_spec", lambda _: None)
    packages = "make add PACKAGE='safetensors huggingface-hub'"
    message = f"a model of the hub needs the package huggingface_hub: {packages}"
    with pytest.raises(LabError, match=message):
        hub.fetch(hub.HubFile.parse("hf:org/model"))
    with pytest.raises(LabError, match="a picture needs the package matplotlib: make add"):
        draw_curves.draw_curves(tmp_path / "a.png", "step", {})


def test_several_nodes_without_the_name_of_the_first():
    with pytest.raises(LabError, match=r"nothing names the first one. Set MASTER_ADDR"):
        ranks._address({}, [], n_nodes=2)


def test_an_archive_that_is_none(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.txt", "1")
    with pytest.raises(
        Failed, match=r"is no archive of lab runs archive.*Make one: lab runs archive"
    ):
        verify_archive(tmp_path / "a.zip")


def test_git_that_fails(repo, tmp_path):
    git_here = Git(repo)
    with pytest.raises(Refused, match=r"git cat-file failed in .*\. To look: git status"):
        git_here.content("cat-file", "blob", "0" * 40)
    commit = git(repo, "rev-parse", "HEAD").strip()
    with pytest.raises(Refused, match=r"git bundle failed: .*To see more: git fsck"):
        write_bundle(git_here, tmp_path / "gone/a.bundle", BundleFile(".bundle", "a", commit))


def test_no_git(repo, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    git_here = Git(repo)
    for call in (git_here.run, git_here, git_here.content):
        with pytest.raises(GitFailed, match=r"git is not installed here.*module load git"):
            call("status")


def test_a_ref_that_git_cannot_write(repo, monkeypatch):
    monkeypatch.setattr(snapshot.time, "sleep", lambda _: None)
    with pytest.raises(Refused, match=r"git cannot write refs/runs/000000000000: "):
        snapshot.create_ref(Git(repo), "0" * 40)


def test_files_that_keep_changing(repo, monkeypatch):
    monkeypatch.setattr(Git, "paths", lambda self, *words: ["a.txt"] * ("--name-only" in words))
    with pytest.raises(Refused, match=r"keep changing while they are recorded: a.txt. Stop what"):
        snapshot.add_changes(Git(repo), [], 1e6, allow=True)


def test_a_file_that_cannot_be_read(repo, monkeypatch):
    monkeypatch.setattr(
        snapshot.os, "lstat", lambda _: (_ for _ in ()).throw(PermissionError(13, "no"))
    )
    with pytest.raises(
        Refused, match=r"cannot read .*a.txt .*Make it readable, or have git ignore"
    ):
        snapshot.refuse_tokens_in_files(repo, ["a.txt"])


def test_policies_and_labels_of_frozen_code(tmp_path, monkeypatch):
    with pytest.raises(LabError, match=r"record.dirty must be snapshot or refuse, but it is maybe"):
        freeze_code(Project(tmp_path, "myproj"), tmp_path, "wide", dirty="maybe")
    monkeypatch.setattr("labrig.record.freeze.frozen.check_frozen_directory", lambda: None)
    monkeypatch.setenv("LAB_FROZEN", str(tmp_path))
    with pytest.raises(
        Refused, match=r"names the commit None, expected None. Make such a directory"
    ):
        frozen_code()


def test_tables_and_plots_without_runs(tmp_path, monkeypatch):
    with pytest.raises(LabError, match=r"these runs have no metric yet. Runs: lab runs list"):
        default_metrics([{"metrics": {}}])
    monkeypatch.setattr(plot, "find_run", lambda *_: None)
    monkeypatch.setattr(plot, "run_roots", lambda _: [])
    words = ["run"] * (len(plot.MARKS) + 1)
    with pytest.raises(LabError, match=r"runs are too many for one picture; at most"):
        plot.plot_command(Project(tmp_path, "myproj"), [*words, "--metric", "val/loss"])


def test_a_repetition_that_failed(tmp_path, monkeypatch):
    original = SimpleNamespace(id="one", data={"sha256": "1" * 64})
    repeated = SimpleNamespace(id="two", dir=tmp_path, data={"sha256": "2" * 64, "path": "a.h5"})
    monkeypatch.setattr(reproduce, "run_directories", lambda _: [])
    project = SimpleNamespace(paths=SimpleNamespace(runs=tmp_path))
    with pytest.raises(Failed, match=r"the repetition of one failed, see above. Then the same"):
        reproduce.new_repetition(project, original, set())
    monkeypatch.setattr(reproduce, "last_attempt", lambda _: None)
    with pytest.raises(Failed, match=r"the repetition of one failed. See: lab runs show two"):
        reproduce.require_end(original, SimpleNamespace(stop_step=None), repeated)
    with pytest.raises(NotComparable, match=r"two read other data than one: a.h5 has sha256 2222"):
        reproduce.refuse_other_data(original, repeated)


@pytest.fixture
def trials(repo):
    """A project in a repository, with one trial."""
    write(repo, {"src/myproj/trials/baseline/config.yaml": "{}\n"})
    return Project(repo, "myproj")


def test_trials_that_are_not_there(trials, monkeypatch):
    with pytest.raises(LabError, match=r"no trial 'baselin'; did you mean: baseline. Trials: "):
        require_trials(trials, "baselin")
    monkeypatch.setattr(diff, "read_readme", lambda _: SimpleNamespace(parent="base"))
    with pytest.raises(LabError, match=r"the parent of 'baseline' is 'base', which is gone. Bring"):
        diff.parent_of(trials, "baseline")
    with pytest.raises(LabError, match=r"no trial 'deep'. Trials: baseline"):
        rename_trial(trials, "deep", "deeper")
    with pytest.raises(LabError, match=r"trial 'baseline' is there: .*Nothing to restore"):
        restore_trial(trials, "baseline")
    with pytest.raises(LabError, match=r"no trial 'deep' was dropped. Dropped: none"):
        restore_trial(trials, "deep")


def gone(name, **facts):
    return {name: SimpleNamespace(**{"name": name, "new_name": None, "commit": "f" * 40} | facts)}


def test_trials_that_became_something_else(trials, monkeypatch):
    monkeypatch.setattr(drop, "read_gone", lambda _: gone("deep"))
    with pytest.raises(LabError, match=r"trial 'deep' is gone already; TRIALS.md says more"):
        drop_trial(trials, "deep", "No better.")
    monkeypatch.setattr(restore, "read_gone", lambda _: gone("deep"))
    with pytest.raises(Failed, match=r"last in commit ffff(?s:.)*get it first: git fetch --all"):
        restore_trial(trials, "deep")
    monkeypatch.setattr(restore, "read_gone", lambda _: gone("deep", new_name="x"))
    with pytest.raises(LabError, match=r"trial 'deep' was renamed; it is 'x' now"):
        restore_trial(trials, "deep")


def test_a_model_that_cannot_be_fetched(tmp_path, monkeypatch):
    """huggingface_hub is no dependency: a stand-in gives its errors."""
    import sys

    class EntryNotFoundError(Exception):
        pass

    errors = SimpleNamespace(
        EntryNotFoundError=EntryNotFoundError,
        HfHubHTTPError=type("HfHubHTTPError", (Exception,), {}),
        LocalEntryNotFoundError=type("LocalEntryNotFoundError", (EntryNotFoundError,), {}),
    )
    raised = [errors.HfHubHTTPError("401 Unauthorized")]

    def download(*_, **__):
        raise raised[0]

    library = SimpleNamespace(hf_hub_download=download, errors=errors)
    monkeypatch.setitem(sys.modules, "huggingface_hub", library)
    monkeypatch.setitem(sys.modules, "huggingface_hub.errors", errors)
    monkeypatch.setattr("labrig.errors.find_spec", lambda _: True)
    wanted = hub.HubFile.parse("hf:org/model")
    with pytest.raises(LabError, match=r"cannot be fetched: 401 Unauthorized. Is its name right"):
        hub.fetch(wanted)
    raised[0] = EntryNotFoundError("no")
    with pytest.raises(
        LabError, match=r"org/model has none of .* at main. Name the file: init_from="
    ):
        hub.fetch(wanted)


def test_an_archive_that_does_not_fit_the_disk(tmp_path, monkeypatch):
    file = tmp_path / "a.zip"
    file.write_bytes(bytes(1000))
    full = SimpleNamespace(free=10)
    monkeypatch.setattr(archive_check.shutil, "disk_usage", lambda _: full)
    with pytest.raises(Failed, match=r"has less room. Name a larger disk: TMPDIR=DIRECTORY"):
        archive_check.refuse_large(file, 2000, tmp_path / "unpacked")
