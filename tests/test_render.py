"""Every combination of answers gives a project that is whole, clean and the same each time."""

import filecmp
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import QUESTIONS, ROOT
from project_files import check_project, files, lint

COPIER = yaml.safe_load((ROOT / "copier.yml").read_text(encoding="utf-8"))
MATRIX = [  # every pair of site, licence and kind of name
    ("Wide nets", "workstation", "MIT"),
    ("Wide nets", "slurm", "Apache-2.0"),
    ("Wide nets", "workstation", "BSD-3-Clause"),
    ("Wide nets", "slurm", "none"),
    ("2026-study", "slurm", "MIT"),
    ("2026-study", "workstation", "Apache-2.0"),
    ("2026-study", "slurm", "BSD-3-Clause"),
    ("2026-study", "workstation", "none"),
    ('手書き "数字" 🎲 \\n', "slurm", "MIT"),
    ('手書き "数字" 🎲 \\n', "workstation", "Apache-2.0"),
    ('手書き "数字" 🎲 \\n', "workstation", "BSD-3-Clause"),
    ('手書き "数字" 🎲 \\n', "slurm", "none"),
]


def test_six_questions_with_help_and_default_and_no_need_of_trust():
    assert list(QUESTIONS) == [
        "project_name",
        "package_name",
        "description",
        "author",
        "site",
        "license",
    ]
    for name, question in QUESTIONS.items():
        assert {"help", "default"} <= set(question), name
        assert "validator" in question or "choices" in question, name
    assert not {"_tasks", "_migrations", "_jinja_extensions", "_external_data"} & set(COPIER)
    assert COPIER["_envops"] == {"undefined": "jinja2.StrictUndefined"}


def test_sites_that_are_offered_exist_and_the_other_way_round():
    shipped = (ROOT / "template/src/{{package_name}}/lab/conf/site").glob("*.yaml")
    assert set(QUESTIONS["site"]["choices"].values()) == {path.stem for path in shipped}


@pytest.mark.parametrize(("name", "site", "license_"), MATRIX)
def test_matrix_of_answers(render_answers, tmp_path, name, site, license_):
    folder = render_answers(tmp_path / "p", project_name=name, site=site, license=license_)
    package = check_project(folder, project_name=name, license=license_, site=site)
    config = yaml.safe_load(
        (folder / "src" / package / "conf/config.yaml").read_text(encoding="utf-8")
    )
    assert {"site": site} in config["defaults"]


def test_the_default_project_is_whole_and_clean(project):
    package = check_project(project, project_name="myproj", license="MIT", site="workstation")
    assert package == "myproj"
    assert lint(project) == ""


@pytest.mark.slow
def test_projects_are_whole_and_clean(render, tmp_path):
    names = sorted({name for name, _, _ in MATRIX})
    folders = [render(tmp_path / f"p{i}", project_name=name) for i, name in enumerate(names)]
    for folder, name in zip(folders, names, strict=True):
        check_project(folder, project_name=name)
    assert lint(*folders) == ""


def test_template_itself_is_clean():
    assert lint(ROOT) == ""


def test_second_render_is_identical(project, render, tmp_path):
    again = render(tmp_path / "myproj")
    names = files(project)
    assert files(again) == names
    assert filecmp.cmpfiles(project, again, names, shallow=False) == (names, [], [])


def test_names_of_all_files(project, request):
    golden = ROOT / "tests/golden/files.txt"
    if request.config.getoption("--regenerate"):
        golden.write_text("\n".join(files(project)) + "\n")
    assert files(project) == golden.read_text().split("\n")[:-1], (
        "meant? then run it again with --regenerate"
    )


@pytest.mark.slow
def test_oldest_copier_that_is_promised_renders_the_same(project, template, tmp_path):
    oldest = COPIER["_min_copier_version"]
    uv = Path(sys.prefix) / "bin/uv"
    command = [
        uv,
        "tool",
        "run",
        "--quiet",
        "--from",
        f"copier=={oldest}",
        "copier",
        "copy",
        "--defaults",
        "--quiet",
    ]
    unpinned = {name: value for name, value in os.environ.items() if name != "UV_CONSTRAINT"}
    subprocess.run([*command, template, tmp_path / "myproj"], env=unpinned, check=True, timeout=300)
    assert files(tmp_path / "myproj") == files(project)
    assert filecmp.cmpfiles(project, tmp_path / "myproj", files(project), shallow=False)[1:] == (
        [],
        [],
    )
