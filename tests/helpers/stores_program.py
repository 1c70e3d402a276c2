"""`lab data push` or `pull`, killed in the middle: python stores_program.py STEP push digits PLACE.

It is killed when the bar moves for the STEP-th time, counted from 0; blocks and parts are small.
"""

import contextlib
import os
import signal
import sys

from labrig.hdf5.file import atomic_file
from labrig.project import Project
from labrig.remote.stores import command, store

BLOCK_BYTES = 100_000
PART_BYTES = 5 << 20  # the least that S3 takes


class DeadlyBar:
    """A bar that kills the process at a step; its steps are printed."""

    def __init__(self, step):
        self.left = step

    def update(self, n_bytes):
        print(n_bytes, flush=True)
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1


def main():
    step, word, *words = sys.argv[1:]
    atomic_file.BLOCK_BYTES = BLOCK_BYTES
    store.PART_BYTES = PART_BYTES
    bar = DeadlyBar(int(step))
    command.byte_progress = lambda *_: contextlib.nullcontext(bar)
    getattr(command, f"{word}_command")(Project.find(), words)


if __name__ == "__main__":
    main()
