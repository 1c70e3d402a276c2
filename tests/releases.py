"""Six later releases of the template, each with changes as real ones have, on top of what lies here."""

import re
import shutil
import sys

from conftest import ROOT, copy_template
from repositories import commit, git, write

sys.path.append(str(ROOT / "hooks"))
from ownership import HASHES, hash_list

LAB = "template/src/{{package_name}}/lab"
PACKAGE = "template/src/{{package_name}}"
FIRST = "0.1.0"
# What neither releases nor edits touch: an update takes 10 ms of CPU for each file
LEFT_OUT = (
    *(f"lab/{name}" for name in ("bench", "cluster", "config", "docs", "hdf5", "hooks", "record")),
    *(f"lab/{name}" for name in ("setup", "training", "trials", "update", "conf/site")),
)
HEADER = (
    '# Template\'s file: updated by "copier update". '
    "Change it in the template, or override it from your own files.\n"
)


def make_history(folder, *, small):
    """A repository of the template with the tag of each release.

    0.1.0 is what lies here, uncommitted edits too.

    Args:
        small: without most of lab/, so that projects of it can be updated but not used.
    """
    copy_template(folder)
    if small:
        for name in LEFT_OUT:
            shutil.rmtree(folder / PACKAGE / name)
    release(folder, FIRST)
    for tag, changes in RELEASES.items():
        for change in changes:
            change(folder)
        release(folder, tag)
    return folder


def release(folder, tag):
    (folder / "template" / HASHES).write_text(hash_list(folder / "template"), encoding="utf-8")
    commit(folder, tag)
    git(folder, "tag", tag)


def replace(folder, name, old, new):
    """Changes a text in a file of the template."""
    path = folder / name
    text = path.read_text(encoding="utf-8")
    assert text.count(old) >= 1, f"{name} has changed; change tests/releases.py with it"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def list_seed(folder, path):
    """A seed is listed twice in copier.yml."""
    replace(folder, "copier.yml", "  - /README.md\n", f"  - /README.md\n  - {path}\n")
    replace(folder, "copier.yml", "\n    /README.md\n", f"\n    /README.md\n    {path}\n")


def add_dependency(folder):
    replace(folder, "template/pyproject.toml.jinja", '    "tqdm', '    "rich>=13",\n    "tqdm')


def change_template_file(folder):
    replace(folder, f"{LAB}/cli.py", "WIDTH = 80", "WIDTH = 79")
    replace(folder, f"{LAB}/errors.py", "    exit_code = 3\n", "    exit_code = 3  # a code\n")


def change_seeds(folder):
    replace(folder, f"{PACKAGE}/task.py", '"""', '"""Newer. ')
    replace(folder, "template/README.md.jinja", "## First commands", "## The first commands")
    replace(folder, f"{PACKAGE}/conf/config.yaml.jinja", "max_epochs: 20", "max_epochs: 30")


def rename_template_file(folder):
    old = folder / LAB / "machine/disk_errors.py"
    old.rename(old.with_name("errors_of_disks.py"))
    for path in (folder / LAB).rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("disk_errors import", "errors_of_disks import"), "utf-8")


def add_seed(folder):
    write(folder, {f"{PACKAGE}/plots.py": '"""Plots: a seed of 0.3.0."""\n'})
    list_seed(folder, "/src/*/plots.py")


def add_target(folder):
    path = folder / LAB / "tools/targets.mk"
    path.write_text(path.read_text() + "\n.PHONY: where\nwhere:\n\t@pwd\n")


def change_ignored(folder):
    replace(folder, "template/.gitignore", "/lightning_logs\n", "/lightning_logs\n/mlruns\n")


def add_question(folder):
    question = 'topic:\n  type: str\n  help: Which topic?\n  default: "none"\n\n# Seeds are'
    replace(folder, "copier.yml", "# Seeds are", question)
    replace(
        folder,
        "template/pyproject.toml.jinja",
        'readme = "README.md"\n',
        'readme = "README.md"\nkeywords = [{{ topic | to_json }}]\n',
    )


def delete_template_file(folder):
    (folder / LAB / "conf/optimizer/lamb.yaml").unlink()


def drop_seed(folder):
    """With its tombstone."""
    (folder / "template/CITATION.cff.jinja").unlink()
    path = folder / "copier.yml"
    before, after = path.read_text().split("  # Tombstones", 1)
    after = after.replace('"update" %}\n', '"update" %}\n    /CITATION.cff\n', 1)
    before = before.replace("  - /CITATION.cff\n", "").replace("    /CITATION.cff\n", "")
    path.write_text(f"{before}  # Tombstones{after}")


def change_default(folder):
    replace(folder, f"{LAB}/conf/lab.yaml.jinja", "seed: 0 #", "seed: 1 #")
    path = folder / "copier.yml"
    path.write_text(re.sub(r"(license:\n.*\n  default: .*)MIT", r"\1none", path.read_text()))


def rename_setting(folder):
    replace(
        folder,
        f"{LAB}/conf/lab.yaml.jinja",
        "  every_min: 30 # minutes",
        "  every_minutes: 30 # minutes",
    )
    for path in (folder / LAB).rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub(r"\bevery_min\b", "every_minutes", text), encoding="utf-8")


def add_workflow(folder):
    weekly = f"{HEADER}name: weekly\non: {{schedule: [{{cron: '0 4 * * 1'}}]}}\njobs: {{}}\n"
    write(folder, {"template/.github/workflows/weekly-news.yml": weekly})


def change_rules_of_ruff(folder):
    replace(folder, f"{LAB}/tools/style.toml", '"B007", ', '"B007", "B008", ')
    replace(
        folder,
        "template/pyproject.toml.jinja",
        'addopts = "-q -ra --strict-config',
        'addopts = "-q -ra --durations=3 --strict-config',
    )


def remove_question(folder):
    path = folder / "copier.yml"
    path.write_text(re.sub(r"topic:\n.*?\n\n", "", path.read_text(), flags=re.S))
    replace(folder, "template/pyproject.toml.jinja", "keywords = [{{ topic | to_json }}]\n", "")


def bump_hooks(folder):
    replace(folder, "template/pyproject.toml.jinja", '"pre-commit>=4.0"', '"pre-commit>=4.2"')
    replace(
        folder,
        "template/.pre-commit-config.yaml.jinja",
        "        verbose: true\n",
        "        verbose: true\n        stages: [pre-commit]\n",
    )


def change_merged_files(folder):
    replace(folder, f"{PACKAGE}/train.py", '"""', '"""Trains. ')
    replace(folder, "template/.gitattributes", "*.ckpt binary\n", "*.ckpt binary\n*.pt binary\n")


def add_folder(folder):
    write(folder, {f"{LAB}/news/__init__.py": f'{HEADER}"""New in 0.7.0."""\n'})
    replace(folder, f"{LAB}/tools/imports.toml", '    "setup",\n', '    "setup",\n    "news",\n')


def raise_a_lower_bound(folder):
    replace(folder, "template/pyproject.toml.jinja", '"h5py>=3.11"', '"h5py>=3.12"')
    replace(folder, "template/pyproject.toml.jinja", "hatchling>=1.27", "hatchling>=1.28")


RELEASES = {
    "0.2.0": [add_dependency, change_template_file, change_seeds],
    "0.3.0": [rename_template_file, add_seed, add_target, change_ignored, add_question],
    "0.4.0": [delete_template_file, drop_seed, change_default],
    "0.5.0": [rename_setting, add_workflow, change_rules_of_ruff],
    "0.6.0": [remove_question, bump_hooks],
    "0.7.0": [change_merged_files, add_folder, raise_a_lower_bound],
}
LAST = list(RELEASES)[-1]
# What 0.7.0 no longer has, or calls otherwise
RENAMED = "src/myproj/lab/machine/disk_errors.py"
DELETED = "src/myproj/lab/conf/optimizer/lamb.yaml"
DROPPED_SEED = "CITATION.cff"
LATE_SEED = "src/myproj/plots.py"


def tags():
    return [FIRST, *RELEASES]
