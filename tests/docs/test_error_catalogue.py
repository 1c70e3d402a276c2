"""Every message of lab stands in docs/errors.md with its remedy, and a test reaches it."""

import json
import os
import re
import subprocess
import sys

import pytest
from projects import ROOT

sys.path.append(str(ROOT / "hooks"))
import error_catalogue
from errors.page import has_own_words, on_one_line, page, split_remedy
from errors.sites import BOOTSTRAP, Code
from errors.table import reached_by, read_table

AGAIN = "type: .venv/bin/python hooks/error_catalogue.py"
NO_MISTAKES = ("stopped at step ", "pruned at step ")  # how a training ends that was asked to stop


@pytest.fixture(scope="module")
def code():
    return error_catalogue.read_code()


@pytest.fixture(scope="module")
def table():
    return read_table(error_catalogue.TABLE)


@pytest.mark.slow
def test_the_page_lists_the_messages_of_the_code(code):
    assert error_catalogue.PAGE.read_text(encoding="utf-8") == page(code.sites), AGAIN


def test_every_message_says_what_to_do(code):
    texts = [on_one_line(message) for site in code.sites for message in site.messages]
    own = [text for text in texts if has_own_words(text) and not text.startswith(NO_MISTAKES)]
    assert len(own) > 400
    assert [text for text in own if not split_remedy(text)[1]] == []


def test_a_test_reaches_every_message(code, table):
    keys = {site.key for site in code.sites}
    lacking = sorted(keys - set(table))
    assert not lacking, f"write a test for each of these, then {AGAIN} tests/IT.py\n{lacking}"
    assert sorted(set(table) - keys) == [], f"these are gone; {AGAIN}"


def test_the_tests_of_the_table_exist(table):
    for test in sorted(set(table.values())):
        file, function = test.split("::")
        assert re.search(rf"^def {function}\(", (ROOT / file).read_text(encoding="utf-8"), re.M), (
            test
        )


PLANTED = '''
from .errors import LabError, Failed

class Lost(Failed):
    pass

def gone(path, what):
    """Makes an error."""

def missing(path, what) -> LabError:
    return LabError(f"{path}: {what}. Copy it again")

def load(path, names):
    advice = "Names: a"
    if not names:
        raise missing(path, f"no {path.kind!r}")
    def inner():
        raise Lost(f"{', '.join(names)} of {path.name}. {advice}")
'''


def test_a_new_message_is_found(tmp_path):
    (tmp_path / "errors.py").write_text(
        "class LabError(Exception):\n    exit_code = 2\nclass Failed(LabError):\n    exit_code = 1\n"
    )
    (tmp_path / "env.py").write_text("")
    (tmp_path / "planted.py").write_text(PLANTED)
    found = {site.function: (site.exit_code, site.messages) for site in Code(tmp_path).sites}
    assert found == {
        "load": (2, ("PATH: no 'KIND'. Copy it again",)),
        "load.<locals>.inner": (1, ("NAMES of PATH. Names: a",)),
    }


def test_the_messages_of_the_bootstrap_are_found(tmp_path):
    (tmp_path / "bootstrap.py").write_text(
        "import sys\ndef install(library):\n    if not library:\n"
        "        sys.exit(f'setup: {library} failed. Then again: make setup')\n    sys.exit(main())\n"
    )
    (tmp_path / "labrig").mkdir()
    found = Code(tmp_path / "labrig", tmp_path / "bootstrap.py").sites
    assert [(site.file, site.function, site.messages) for site in found] == [
        (BOOTSTRAP, "install", ("setup: LIBRARY failed. Then again: make setup",))
    ]
    assert "- setup: LIBRARY failed. **Then again: make setup** (1)\n" in page(found)


ENDS = """
import os, sys
os.environ["PYTEST_CURRENT_TEST"] = "tests/x.py::test_y[1] (call)"
from labrig.docs.pages import docs_command
from labrig.setup.process import stop
try:
    docs_command(None, ["no-page"])
except Exception as error:
    print(type(error).__name__)
stop("no room. Make some")
"""


def run_watched(*words, cwd=None, **variables):
    """What a Python prints that finds reached_errors.py along its path."""
    usual = {name: value for name, value in os.environ.items() if name != "REACHED_ERRORS"}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        env=usual | {"PYTHONPATH": str(error_catalogue.WATCH)} | variables,
        capture_output=True,
        text=True,
    )
    return done.stdout + done.stderr


def test_a_process_says_which_errors_it_reaches(tmp_path, code):
    reached = tmp_path / "reached.txt"
    printed = "LabError\nsetup: no room. Make some\n"
    assert run_watched("-c", ENDS) == printed
    assert not reached.exists()
    assert run_watched("-c", ENDS, REACHED_ERRORS=str(reached)) == printed
    error, end = map(json.loads, reached.read_text(encoding="utf-8").splitlines())
    assert error[:2] == ["tests/x.py::test_y[1]", "LabError"]
    assert end[1::2] == ["SystemExit", "setup: no room. Make some"]
    (((file, function, _), test),) = reached_by(reached, code).items()
    assert (file, function, test) == ("docs/pages.py", "docs_command", "tests/x.py::test_y")


def test_a_process_with_a_path_of_its_own_is_watched_too(tmp_path):
    """As those that a test starts with another PYTHONPATH, and the forks of the warm process."""
    with error_catalogue.watched_pythons():
        assert run_watched("-c", "import reached_errors", PYTHONPATH=str(tmp_path)) == ""


def test_the_library_that_bootstrap_starts_is_watched_too(tmp_path):
    """bootstrap.py drops PYTHONPATH."""
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "bootstrap.py").write_text(
        "import os, sys\nos.environ.pop('PYTHONPATH')\n"
        "os.execv(sys.executable, [sys.executable, '-c', 'import reached_errors'])\n"
    )
    variables = {"REACHED_ERRORS": str(tmp_path / "reached.txt")}
    assert run_watched("tools/bootstrap.py", cwd=tmp_path, **variables) == ""
