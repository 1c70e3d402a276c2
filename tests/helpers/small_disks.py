"""Disks that are full, out of inodes, read-only, or over a quota: real ones as root, and a stand-in for quotas."""

import errno
import os
import subprocess
import sys
from contextlib import contextmanager, suppress

import pytest

needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can mount a small disk; CI runs the tests as root"
)


@contextmanager
def mounted(folder, options):
    """A tmpfs with these options at `folder`, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        # Lazily: a process that is just ending may still be in it.
        subprocess.run(["umount", "-l", folder], check=True)


@contextmanager
def read_only(folder):
    """Nobody can write into the mounted `folder` for a while, root neither."""
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", folder], check=True)


def fill(folder, free_bytes=0):
    """Fills a disk up to so many bytes; the file that does it."""
    filler = folder / ".filler"
    with open(filler, "wb", buffering=0) as file:
        for piece in (1 << 20, 1 << 12, 1):
            with suppress(OSError):
                while file.write(b"x" * piece):
                    pass
        size = file.tell()
    os.truncate(filler, max(0, size - free_bytes))
    return filler


class Quota:
    """A stand-in for a quota: within `folder` the n-th writing call of this process fails, and all later ones.

    It sees the files that are opened for writing, made, renamed, linked, written to and flushed.
    """

    EVENTS = ("open", "os.mkdir", "os.rename", "os.link")
    current = None

    def __init__(self, folder, monkeypatch):
        self.folder = str(folder)
        self.n_left = None  # None: no quota
        Quota.current = self
        if not hasattr(Quota, "is_hooked"):
            Quota.is_hooked = True
            sys.addaudithook(Quota.hook)  # it stays as long as the process
        for name in ("write", "fsync"):
            monkeypatch.setattr(os, name, self.checked(getattr(os, name)))

    def checked(self, function):
        def call(file, *rest):
            if os.readlink(f"/proc/self/fd/{file}").startswith(self.folder):
                self.count()
            return function(file, *rest)

        return call

    @staticmethod
    def hook(event, arguments):
        if event not in Quota.EVENTS or Quota.current is None:
            return
        path = arguments[1] if event in ("os.rename", "os.link") else arguments[0]
        reads = event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if not reads and str(path).startswith(Quota.current.folder):
            Quota.current.count(path)

    def count(self, path=None):
        if self.n_left is None:
            return
        self.n_left -= 1
        if self.n_left < 0:
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), str(path) if path else None)
