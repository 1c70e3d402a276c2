"""The audit hook that notes files: what it costs, and that it never disturbs the user's call."""

import os
import subprocess
import sys
import time

import pytest
from labrig.record.freeze.loading import OwnModules, audit_hook


@pytest.fixture
def own(tmp_path):
    own = OwnModules()
    own.roots = (f"{tmp_path}{os.sep}",)
    return own


def test_only_files_that_are_read_executed_or_loaded_are_noted(own, tmp_path):
    hook = audit_hook(own)
    hook("open", (str(tmp_path / "read.txt"), "r", os.O_RDONLY))
    hook("open", (os.fsencode(tmp_path / "bytes.txt"), "r", os.O_RDONLY))
    hook("open", (str(tmp_path / "written.txt"), "w", os.O_WRONLY | os.O_CREAT))
    hook("exec", (compile("1", str(tmp_path / "run.py"), "exec"),))
    hook("exec", (compile("1", "<string>", "exec"),))
    hook("import", ("m", str(tmp_path / "m.so"), None, None, None))
    hook("import", ("m", None, None, None, None))
    hook("subprocess.Popen", ("cat", ["cat", str(tmp_path / "named.txt")], None, None))
    assert [os.path.basename(path) for path in own.read] == [
        "read.txt",
        "bytes.txt",
        "run.py",
        "m.so",
    ]


def test_the_hook_never_raises(own, tmp_path, monkeypatch):
    hook = audit_hook(own)
    asked = []
    monkeypatch.setattr(own, "note_file", lambda path: asked.append(path) or 1 / 0)
    hook("open", (str(tmp_path / "a"), "r", os.O_RDONLY))
    assert asked == [str(tmp_path / "a")]
    for odd in ((), (None,), (b"\xff\0", "r", 0), (object(), object(), object())):
        for event in ("open", "exec", "import", "ctypes.dlopen"):
            assert hook(event, odd) is None


def test_the_environment_keeps_its_class():
    """torch.compile reads os.environ, and knows its class only."""
    code = (
        "import os\nbefore = type(os.environ)\n"
        "import labrig.record.write.recording, labrig.record.freeze.loading as l\n"
        "from pathlib import Path\nl.OWN.watch(Path.cwd())\n"
        "assert type(os.environ) is before\n"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=120)
    assert done.returncode == 0


def test_another_event_costs_less_than_a_microsecond(own):
    hook, n = audit_hook(own), 100_000
    began = time.process_time()
    for _ in range(n):
        hook("builtins.id", (1,))
    assert (time.process_time() - began) / n < 1e-6
