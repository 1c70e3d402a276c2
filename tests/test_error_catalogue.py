"""Every message of lab stands in docs/lab/errors.md with its remedy, and a test reaches it."""

import re
import sys

import pytest
from conftest import ROOT

sys.path.append(str(ROOT / "hooks"))
import error_catalogue
from errors.page import has_own_words, on_one_line, page, split_remedy
from errors.sites import Code
from errors.table import read_table

AGAIN = "type: .venv/bin/python hooks/error_catalogue.py"
NO_MISTAKES = ("stopped at step ", "pruned at step ")  # how a training ends that was asked to stop


@pytest.fixture(scope="module")
def code():
    return Code(error_catalogue.LAB)


@pytest.fixture(scope="module")
def table():
    return read_table(error_catalogue.TABLE)


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
    assert not lacking, f"write a test for each of these, then {AGAIN} tests/test_IT.py\n{lacking}"
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
