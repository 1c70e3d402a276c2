"""Six later releases of the template, each with changes as real ones have, on top of what lies here."""

import re

from rendering import copy_template, release
from repositories import write

PACKAGE = "template/src/{{package_name}}"
PYPROJECT = "template/pyproject.toml.jinja"
BOOTSTRAP = "template/tools/bootstrap.py"
FIRST = "0.1.0"
HEADER = (
    '# Template\'s file: updated by "copier update". '
    "Change it in the template, or override it from your own files.\n"
)


def make_history(folder):
    """A repository of the template with the tag of each release. 0.1.0 is what lies here, uncommitted edits too."""
    copy_template(folder)
    release(folder, FIRST)
    for tag, changes in RELEASES.items():
        for change in changes:
            change(folder)
        release(folder, tag)
    return folder


def replace(folder, name, old, new):
    """Changes a text in a file of the template."""
    path = folder / name
    text = path.read_text(encoding="utf-8")
    assert text.count(old) >= 1, f"{name} has changed; change tests/helpers/releases.py with it"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def list_seed(folder, path):
    """A seed is listed twice in copier.yml."""
    replace(folder, "copier.yml", "  - /README.md\n", f"  - /README.md\n  - {path}\n")
    replace(folder, "copier.yml", "\n    /README.md\n", f"\n    /README.md\n    {path}\n")


def change_library(folder):
    write(folder, {"src/labrig/news.py": '"""New in 0.2.0."""\n'})


def change_template_file(folder):
    replace(folder, BOOTSTRAP, 'UV = shutil.which("uv")\n', 'UV = shutil.which("uv")  # or pip\n')
    replace(folder, "template/.github/workflows/check.yml", "-minutes: 15", "-minutes: 20")


def change_seeds(folder):
    replace(folder, f"{PACKAGE}/task.py", '"""', '"""Newer. ')
    replace(folder, "template/README.md.jinja", "## First commands", "## The first commands")
    replace(folder, f"{PACKAGE}/conf/config.yaml.jinja", "max_epochs: 20", "max_epochs: 30")


def rename_template_file(folder):
    (folder / "template" / RENAMED).rename(folder / "template/.github/workflows/weekly.yml")


def add_seed(folder):
    write(folder, {f"{PACKAGE}/plots.py": '"""Plots: a seed of 0.3.0."""\n'})
    list_seed(folder, "/src/*/plots.py")


def add_target(folder):
    target = ".PHONY: where\nwhere:\n\t@pwd\n\n\n\n# Yours, from"
    replace(folder, "template/Makefile", "\n\n\n# Yours, from", f"\n{target}")


def change_ignored(folder):
    replace(folder, "template/.gitignore", "/lightning_logs\n", "/lightning_logs\n/mlruns\n")


def add_question(folder):
    question = 'topic:\n  type: str\n  help: Which topic?\n  default: "none"\n\n# Seeds are'
    replace(folder, "copier.yml", "# Seeds are", question)
    replace(
        folder, PYPROJECT, "\n[build-system]", "topic = {{ topic | to_json }}\n\n[build-system]"
    )


def delete_template_file(folder):
    (folder / "template" / DELETED).unlink()


def drop_seed(folder):
    """With its tombstone."""
    (folder / "template/CITATION.cff.jinja").unlink()
    replace(folder, PYPROJECT, '["LICENSE", "CITATION.cff"]', '["LICENSE"]')
    path = folder / "copier.yml"
    before, after = path.read_text().split("  # Tombstones", 1)
    after = after.replace('"update" %}\n', '"update" %}\n    /CITATION.cff\n', 1)
    before = before.replace("  - /CITATION.cff\n", "").replace("    /CITATION.cff\n", "")
    path.write_text(f"{before}  # Tombstones{after}")


def change_default(folder):
    path = folder / "copier.yml"
    path.write_text(re.sub(r"(license:\n.*\n  default: .*)MIT", r"\1none", path.read_text()))


def change_job_script(folder):
    name = "src/labrig/cluster/job/job.sh"
    replace(folder, name, "export PYTHONUNBUFFERED=1 ", "export PYTHONUNBUFFERED=1 LAB_NEW=1 ")


def add_workflow(folder):
    news = f"{HEADER}name: news\non: {{schedule: [{{cron: '0 4 * * 1'}}]}}\njobs: {{}}\n"
    write(folder, {"template/.github/workflows/news.yml": news})


def change_settings_of_tools(folder):
    replace(
        folder,
        PYPROJECT,
        'addopts = "-q -ra --strict-config',
        'addopts = "-q -ra --durations=3 --strict-config',
    )


def remove_question(folder):
    path = folder / "copier.yml"
    path.write_text(re.sub(r"topic:\n.*?\n\n", "", path.read_text(), flags=re.S))
    replace(folder, PYPROJECT, "topic = {{ topic | to_json }}\n", "")


def bump_hooks(folder):
    replace(folder, PYPROJECT, '"pre-commit>=4.0"', '"pre-commit>=4.2"')
    verbose = "        verbose: true\n"
    name = "template/.pre-commit-config.yaml"
    replace(folder, name, verbose, f"{verbose}        stages: [pre-commit]\n")


def change_merged_files(folder):
    replace(folder, f"{PACKAGE}/train.py", '"""', '"""Trains. ')
    replace(folder, "template/.gitattributes", "*.ckpt binary\n", "*.ckpt binary\n*.pt binary\n")


def raise_a_lower_bound(folder):
    replace(folder, PYPROJECT, "hatchling>=1.27", "hatchling>=1.28")


RELEASES = {
    "0.2.0": [change_library, change_template_file, change_seeds],
    "0.3.0": [rename_template_file, add_seed, add_target, change_ignored, add_question],
    "0.4.0": [delete_template_file, drop_seed, change_default],
    "0.5.0": [change_job_script, add_workflow, change_settings_of_tools],
    "0.6.0": [remove_question, bump_hooks],
    "0.7.0": [change_merged_files, raise_a_lower_bound],
}
LAST = list(RELEASES)[-1]
# What 0.7.0 no longer has, or calls otherwise
RENAMED = ".github/workflows/update.yml"
DELETED = ".gitlab/lab.yml"
DROPPED_SEED = "CITATION.cff"
LATE_SEED = "src/myproj/plots.py"


def tags():
    return [FIRST, *RELEASES]
