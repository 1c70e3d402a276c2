"""What users do to their own files, and to those of both."""

import shutil

from edits import append, edit, replace
from releases import DROPPED_SEED, LATE_SEED
from repositories import write


@edit()
def nothing(folder):
    pass


# The user's own files


@edit()
def readme(folder):
    replace(
        folder, "README.md", "## First commands", "My thesis.\n\n## First commands of my thesis"
    )


@edit()
def a_trial(folder):
    trials = folder / "src/myproj/trials"
    shutil.copytree(trials / "baseline", trials / "wide")
    replace(trials, "wide/config.yaml", "width: 32", "width: 64")


@edit()
def baseline_changed(folder):
    replace(folder, "src/myproj/trials/baseline/config.yaml", "width: 32", "width: 48")


@edit()
def a_trial_deleted(folder):
    shutil.rmtree(folder / "src/myproj/trials/baseline")


@edit()
def loss(folder):
    replace(folder, "src/myproj/task.py", '"""', '"""My own: ')


@edit()
def settings(folder):
    replace(folder, "src/myproj/conf/config.yaml", "max_epochs: 20", "max_epochs: 2")
    append(folder, "src/myproj/conf/config.yaml", "seed: 3\n")


@edit()
def own_groups_and_modules(folder):
    write(
        folder, {"src/myproj/conf/optimizer/mine.yaml": "lr: 1\n", "src/myproj/net.py": "A = 1\n"}
    )


@edit()
def own_tests(folder):
    write(folder, {"tests/test_net.py": "def test_net():\n    assert True\n"})
    append(folder, "tests/test_data.py", "\n\ndef test_mine():\n    assert True\n")


@edit()
def unicode_names(folder):
    write(folder, {"notes/Übersicht 図.md": "é\n", "src/myproj/trials/baseline/ä b.txt": "x\n"})


@edit()
def a_file_that_a_later_seed_is_called_too(folder):
    write(folder, {LATE_SEED: '"""My plots."""\n'})


@edit()
def seeds_deleted_and_renamed(folder):
    (folder / DROPPED_SEED).unlink()
    (folder / "README.md").rename(folder / "README.rst")
    (folder / "tests/test_data.py").unlink()


@edit()
def a_seed_that_is_dropped_later(folder):
    append(folder, DROPPED_SEED, "doi: 10.1234/5\n")


# Merged files


@edit()
def a_dependency(folder):
    line = '    "scikit-learn>=1.5",\n'
    replace(folder, "pyproject.toml", line, f'    "einops>=0.8",\n{line}    "timm",\n')


@edit()
def tools_for_development(folder):
    line = '    "ruff>=0.12",\n'
    replace(folder, "pyproject.toml", line, f'{line}    "ipdb",\n')
    group = 'docs = ["mkdocs"]\n'
    replace(folder, "pyproject.toml", "\n[tool.ruff]\n", f"{group}\n[tool.ruff]\n")


@edit()
def metadata(folder):
    replace(folder, "pyproject.toml", 'version = "0.1.0"', 'version = "0.4.0"')
    replace(folder, "pyproject.toml", '"The authors of myproj"', '"Ann Bee", email = "a@b.org"')
    urls = '[project.urls]\nCode = "https://a.org"\n'
    scripts = '[project.scripts]\nplot = "myproj.plot:main"\n'
    groups = "[dependency-groups]\n"
    replace(folder, "pyproject.toml", groups, f"{urls}\n{scripts}\n{groups}")


@edit()
def extras(folder):
    line = '# Extras of your own: name = ["package"]. The template\'s follow.\n'
    replace(folder, "pyproject.toml", line, f'{line}figures = ["seaborn"]\n')


@edit()
def rules_of_ruff(folder):
    replace(folder, "pyproject.toml", "line-length = 100", "line-length = 88")
    replace(folder, "pyproject.toml", '"NPY201", "PT"]', '"NPY201", "PT", "D"]')


@edit()
def settings_of_pytest(folder):
    replace(
        folder, "pyproject.toml", "timeout = 120\n", 'timeout = 300\nmarkers = ["gpu: needs one"]\n'
    )


@edit(conflicts=["pyproject.toml"])
def the_same_line_of_pyproject(folder):
    replace(folder, "pyproject.toml", '"hatchling>=1.27"', '"hatchling>=1.27,<2"')


@edit(conflicts=["pyproject.toml"])
def another_extra_of_the_library(folder):
    """On the line that each release changes; `make add PACKAGE=wandb` is the way that meets none."""
    replace(folder, "pyproject.toml", "labrig[train]", "labrig[train,wandb]")


@edit()
def settings_of_another_tool(folder):
    append(folder, "pyproject.toml", "\n[tool.mypy]\nstrict = true\n")


@edit()
def targets(folder):
    append(folder, "Makefile", "\nfigures:\n\tpython figures.py\n")


@edit()
def a_target_of_the_template_replaced(folder):
    append(folder, "Makefile", "\ntest:\n\t$(BIN)/python -m pytest -x\n")


@edit()
def hooks(folder):
    append(
        folder,
        ".pre-commit-config.yaml",
        "  - repo: local\n    hooks:\n      - {id: mine, name: mine, entry: 'true', language: system}\n",
    )


@edit()
def arguments_of_the_hook(folder):
    replace(folder, ".pre-commit-config.yaml", "args: []", "args: [--max-kb=5000]")


@edit()
def ignored(folder):
    append(folder, ".gitignore", "/figures\n*.npz\n")


@edit()
def job_script(folder):
    replace(folder, "jobs/local.sh", "# ---- what runs", "module load mine\n\n# ---- what runs")


@edit(conflicts=["jobs/local.sh"])
def job_script_at_the_same_line(folder):
    replace(folder, "jobs/local.sh", "export PYTHONUNBUFFERED=1 ", "export PYTHONUNBUFFERED=0 ")


@edit()
def job_script_of_another_scheduler(folder):
    write(folder, {"jobs/slurm.sh": "#!/bin/bash\n@@{directives}\n"})


@edit()
def job_script_deleted(folder):
    """The library's own stands in."""
    (folder / "jobs/local.sh").unlink()


@edit()
def ignored_in_the_middle(folder):
    replace(folder, ".gitignore", "# secrets\n", "# secrets\n*.pem\n")


@edit()
def attributes(folder):
    append(folder, ".gitattributes", "*.npz filter=lfs\n")


@edit()
def train_py(folder):
    replace(
        folder, "src/myproj/train.py", "    # 1. Settings", "    print('mine')\n    # 1. Settings"
    )


@edit(conflicts=["src/myproj/train.py"])
def train_py_at_the_same_line(folder):
    replace(folder, "src/myproj/train.py", '"""The map', '"""My map')


@edit(conflicts=["src/myproj/train.py"])
def train_py_rewritten(folder):
    (folder / "src/myproj/train.py").write_text("def train(config, run, recording):\n    pass\n")
