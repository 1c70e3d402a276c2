"""The first day, typed as its page says: every command runs, and prints what the page shows.

Packages are not downloaded: the environments on the page find those of the tests, and pip finds nothing else to do.
"""

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from commands import write_command
from console_page import Command, File, Shell, same, steps_of, with_outputs
from projects import ROOT
from rendering import copy_template, release

PAGE = ROOT / "docs/first-day.md"
ADDRESS = "https://git.example.org/lab/template.git"
NEXT_RELEASE = "0.2.0"  # comes out between the commands of the page and `copier update`


@pytest.fixture
def template_repository(tmp_path):
    folder = copy_template(tmp_path / "template", library=True)
    release(folder, "0.1.0")
    return folder


def make_environment(folder, *, with_python):
    """A directory that becomes, or is, an environment which finds the packages of the tests.

    Its commands are small programs that call those of the tests: writing over one harms nothing.
    """
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    if with_python:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    site = folder / "lib" / version / "site-packages"
    site.mkdir(parents=True, exist_ok=True)
    (site / "tests.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    pip = '#!/bin/sh\nexec "$(dirname "$0")/python" -m pip "$@"\n'
    write_command(folder / "bin", "pip", pip)
    for command in Path(sys.prefix, "bin").iterdir():
        if command.name.startswith(("python", "activate", "pip", "uv", "__")):
            continue
        write_command(folder / "bin", command.name, f'#!/bin/sh\nexec "{command}" "$@"\n')


def environment_of_a_new_account(home, template_repository):
    (home / ".gitconfig").write_text(
        f'[url "{template_repository}"]\n\tinsteadOf = {ADDRESS}\n'
        "[user]\n\tname = Ada\n\temail = ada@example.org\n"
    )
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    return kept | {
        "HOME": str(home),
        "LOGNAME": "ada",
        "USER": "ada",
        "LANG": "C.UTF-8",
        "GIT_ALLOW_PROTOCOL": "file",
        "COLUMNS": "100",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",  # everything is there already
        "PIP_NO_BUILD_ISOLATION": "0",  # pip reads it the other way round
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "OMP_NUM_THREADS": "1",
    }


@pytest.mark.release
@pytest.mark.timeout(900)
def test_the_first_day(template_repository, tmp_path, request):
    home = tmp_path / "ada"
    home.mkdir()
    environment = environment_of_a_new_account(home, template_repository)
    make_environment(home / ".copier", with_python=False)
    make_environment(home / "myproj/.venv", with_python=True)
    page = PAGE.read_text(encoding="utf-8")
    differing = {}
    with Shell(home, environment) as shell:
        try:
            for step in steps_of(page):
                if "copier update" in step.text:
                    publish_a_release(template_repository)
                printed = shell.do(step)
                if not same(step.shown, printed):
                    differing[step] = printed
            _, updated = shell.run("git show --format= --name-only")
        finally:
            if request.config.getoption("--regenerate"):
                PAGE.write_text(with_outputs(page, differing), encoding="utf-8")
    shown = [f"$ {step.text}\n" + "\n".join(printed) for step, printed in differing.items()]
    assert not differing, "\n".join(shown)
    assert updated == [".copier-answers.yml", "pyproject.toml"], "only the library is a newer one"


def publish_a_release(template_repository):
    page = template_repository / "docs/speed.md"
    page.write_text(page.read_text(encoding="utf-8") + "\nA line of the next release.\n")
    release(template_repository, NEXT_RELEASE)


def test_the_page_has_every_part_of_a_day():
    steps = steps_of(PAGE.read_text(encoding="utf-8"))
    commands = [step.text for step in steps if isinstance(step, Command)]
    for beginning in (
        "copier copy",
        "make setup",
        "lab train trial=baseline",
        "lab data pack",
        "lab trials new",
        "lab runs table",
        "lab submit",
        "lab runs list",
        "copier update",
    ):
        assert any(
            command.startswith(beginning) or f"/{beginning}" in command for command in commands
        ), beginning
    assert len([step for step in steps if isinstance(step, File)]) >= 3


LANGUAGES = ("fr", "ja", "th")
BLOCK = re.compile(r"(?:^<!-- file: .*? -->\n)?^```.*?^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("language", LANGUAGES)
def test_translations_have_the_same_commands(language, request):
    """And write the same files; what is said around them, and what is printed, is the translator's."""
    english = PAGE.read_text(encoding="utf-8")
    path = PAGE.with_name(f"first-day.{language}.md")
    if request.config.getoption("--regenerate"):
        blocks = iter(BLOCK.findall(english))
        text = BLOCK.sub(lambda _: next(blocks), path.read_text(encoding="utf-8"))
        path.write_text(text, encoding="utf-8")
    typed = typed_in(path.read_text(encoding="utf-8"))
    assert typed == typed_in(english), "to copy the blocks: --regenerate"


def typed_in(page):
    return [step if isinstance(step, File) else step.text for step in steps_of(page)]
