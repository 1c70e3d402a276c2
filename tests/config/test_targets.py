"""The parameters of a target as its source shows them: what is refused, Python refuses as well."""

import importlib
import sys

import pytest
from hydra_tree import make_tree
from labrig.config.check_target import known_signature
from labrig.config.targets import MissingTarget, signature_of
from labrig.errors import LabError

ANY = None  # only an import could tell
BASES = """
    import abc
    from abc import ABC
    from typing import Generic, Protocol, TypeVar

    T = TypeVar("T")

    class Base:
        def __init__(self, model, optimizer, schedule=None):
            self.taken = model, optimizer, schedule

    class Mixin:
        def shown(self):
            return 1
"""
# Source of a module after BASES: the target in it, and the names that it takes.
CASES = {
    "class Own(Base):\n def __init__(self, value=0.0): super().__init__(1, 2)\n": ("Own", {"value"}),
    "class Both(Mixin, Base): pass\n": ("Both", ANY),
    "class New:\n def __new__(cls, **k): return object.__new__(cls)\n"
    " def __init__(self, **k): pass\n": ("New", ANY),
    "class Places:\n def __init__(self, a=1, /, *, b=2): pass\n": ("Places", {"b"}),
    "class Made:\n @classmethod\n def small(cls, width=1): return cls()\n": ("Made.small", {"width"}),
    "class Made:\n @staticmethod\n def small(width=1): return 1\n": ("Made.small", {"width"}),
    "class Made:\n class Inner:\n  def __init__(self, width=1): pass\n": ("Made.Inner", {"width"}),
    "class Top:\n @classmethod\n def small(cls, width=1): return cls()\nclass Made(Top): pass\n": (
        "Made.small",
        ANY,
    ),
    "if T:\n def made(width=1): return 1\n": ("made", ANY),
    "async def made(width=1): return 1\n": ("made", {"width"}),
    "def made(a=1): return 1\ndef made(width=1): return 1\n": ("made", ANY),
    "try:\n from nowhere import made\nexcept ImportError:\n def made(width=1): return 1\n": (
        "made",
        ANY,
    ),
    "class Made:\n def __init__(self, width=1): pass\nAlias: type = Made\n": ("Alias", ANY),
    "from functools import partial\nmade = partial(Base, 1)\n": ("made", ANY),
    "def plain(f): return lambda depth=1: f()\n@plain\ndef made(width=1): return 1\n": ("made", ANY),
    "import dataclasses\n@dataclasses.dataclass\nclass Made:\n width: int = 1\n": ("Made", ANY),
    "class Made:\n if T:\n  def __init__(self, width=1): pass\n": ("Made", ANY),
    "class Made(dict): pass\n": ("Made", ANY),
    "import collections\nclass Made(collections.UserDict):\n"
    " def __init__(self, width=1): pass\n": ("Made", {"width"}),
    "exec('def made(width=1): return 1')\n": ("made", ANY),
    "from .other import Other\n": ("Other", {"width"}),
    "from .other import Other as Renamed\n": ("Renamed", {"width"}),
    "from myproj.other import Other\n": ("Other", {"width"}),
    "from collections import OrderedDict as Other\n": ("Other", ANY),
}  # fmt: skip
OTHER = "class Other:\n def __init__(self, width=1): pass\n"


@pytest.fixture
def written(tmp_path, monkeypatch):
    """written(text): that text after BASES is myproj.written; returns the module, imported."""

    def write(text):
        text = "\n".join(line.removeprefix("    ") for line in BASES.splitlines()) + "\n" + text
        make_tree(tmp_path, {})
        (tmp_path / "src/myproj/written.py").write_text(text)
        (tmp_path / "src/myproj/other.py").write_text(OTHER)
        monkeypatch.syspath_prepend(tmp_path / "src")
        for name in [name for name in sys.modules if name.split(".")[0] == "myproj"]:
            monkeypatch.delitem(sys.modules, name)
        return importlib.import_module("myproj.written")

    return write


@pytest.mark.parametrize("source", CASES)
def test_what_its_source_shows_is_what_python_takes(written, source):
    name, expected = CASES[source]
    module = written(source)
    signature = signature_of(f"myproj.written.{name}")
    shown = None if signature.takes_any else set(signature.names)
    assert shown == expected
    made = module
    for part in name.split("."):
        made = getattr(made, part)
    required = dict.fromkeys(signature.required, 1)
    for argument in ("value", "model", "optimizer", "schedule", "width", "a", "b", "net", "x"):
        try:
            outcome = made(**(required | {argument: 1}))
        except TypeError:
            is_taken = False
        else:
            is_taken = True
            getattr(outcome, "close", int)()  # a coroutine
        if argument in signature.names:
            assert is_taken, argument
        elif not signature.takes_any:
            assert not is_taken, argument


MISSING = {
    "myproj.written.Bas": ("defines no 'Bas'", "did you mean: Base"),
    "myproj.writen.Base": ("defines no 'writen'", "did you mean: written"),
    "myproj.written": ("is a module", ""),
}


@pytest.mark.parametrize("target", MISSING)
def test_what_is_missing_is_named_with_the_nearest(written, target):
    written("class Base:\n @classmethod\n def small(cls): pass\n")
    with pytest.raises(MissingTarget):
        signature_of(target)
    with pytest.raises(LabError) as refused:
        known_signature(target, "trials/wide/config.yaml: model")
    for words in MISSING[target]:
        assert words in str(refused.value)


def test_the_package_of_a_target_that_is_not_installed_is_named(written):
    """A typo in the project's own code is no package."""
    with pytest.raises(LabError, match=r"no module 'timmm'(?s:.)*make add PACKAGE=timmm$"):
        known_signature("timmm.models.Resnet", "config.yaml: model")
    with pytest.raises(LabError, match=r"Write module\.Class, such as \.model\.CNN\.$"):
        known_signature("myproj.nowhere.Net", "config.yaml: model")
