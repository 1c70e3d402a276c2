"""Every combination of answers gives a project that is whole, clean and the same each time."""

import os
import re
import subprocess
import sys
from itertools import cycle

import pytest
import yaml
from labrig.cluster.submit.script import library_template
from project_files import check_project, files, lint
from projects import LIBRARY, PROJECT, ROOT
from rendering import COPIER, QUESTIONS, without_place

MOST_FILES = 40  # of a project: what nobody would clone is not rendered
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
# Every site, each with one of the licences in turn
SITES, LICENSES = (QUESTIONS[name]["choices"].values() for name in ("site", "license"))
EACH_CHOICE = list(zip(SITES, cycle(LICENSES)))


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
    shipped = (ROOT / "src/labrig/conf/site").glob("*.yaml")
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
        assert len(files(folder)) <= MOST_FILES
    assert lint(*folders) == ""


def test_template_itself_is_clean():
    assert lint(ROOT) == ""


def placeless_files(folder):
    """Path -> bytes of a project, without the place and the release of its template."""
    return {name: without_place(name, (folder / name).read_bytes()) for name in files(folder)}


def test_the_stored_project_is_what_the_template_renders(render, tmp_path, request):
    """All other tests use tests/project, the rendering of the default answers."""
    folder = render(tmp_path / "myproj")
    fresh = placeless_files(folder)
    assert len(fresh) <= MOST_FILES
    if request.config.getoption("--regenerate"):
        for name in {*files(PROJECT)} - {*fresh}:
            (PROJECT / name).unlink()
        for name, content in fresh.items():
            (PROJECT / name).parent.mkdir(parents=True, exist_ok=True)
            (PROJECT / name).write_bytes(content)
    assert files(PROJECT) == list(fresh), "meant? then run it again with --regenerate"
    different = [name for name in fresh if (PROJECT / name).read_bytes() != fresh[name]]
    assert different == [], "meant? then run it again with --regenerate"
    text = (folder / "pyproject.toml").read_text(encoding="utf-8")
    assert 'template = "0.1.0"\n' in text, "the release, which the library compares"


@pytest.mark.slow
@pytest.mark.parametrize(("site", "license_"), EACH_CHOICE)
def test_every_choice_gives_few_files_and_the_library_s_own_job_script(
    render, tmp_path, site, license_
):
    folder = render(tmp_path / "p", site=site, license=license_)
    assert len(files(folder)) <= MOST_FILES
    profile = (LIBRARY / f"conf/site/{site}.yaml").read_text(encoding="utf-8")
    scheduler = yaml.safe_load(profile)["scheduler"]
    (script,) = (folder / "jobs").iterdir()
    assert script.name == f"{scheduler}.sh"
    assert script.read_text(encoding="utf-8") == library_template(scheduler)


def test_no_part_of_a_job_script_holds_a_mark_of_jinja():
    """The template includes them, so Jinja reads them."""
    parts = list((LIBRARY / "cluster/job").glob("*.sh"))
    assert len(parts) >= 4
    for part in parts:
        assert not re.search(r"\{[{%#]", part.read_text(encoding="utf-8")), part


@pytest.mark.slow
def test_oldest_copier_that_is_promised_renders_the_same(project, template, tmp_path):
    oldest = f"copier=={COPIER['_min_copier_version']}"
    command = [f"{sys.prefix}/bin/uv", "tool", "run", "--quiet", "--from", oldest, "copier", "copy"]
    unpinned = {name: value for name, value in os.environ.items() if name != "UV_CONSTRAINT"}
    words = ["--defaults", "--quiet", template, tmp_path / "myproj"]
    subprocess.run([*command, *words], env=unpinned, check=True, timeout=300)
    assert placeless_files(tmp_path / "myproj") == placeless_files(project)
