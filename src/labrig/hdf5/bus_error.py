"""A mapped file that is cut in the moment it is read: a sentence, where the system sends SIGBUS."""

import ctypes
import os
import signal

SENTENCE = (
    "lab: a data file was cut short while it was read, or its disk failed (SIGBUS). "
    "Copy or pack the file again; then: lab resume RUN\n"
)
EXIT_CODE = 1


@ctypes.CFUNCTYPE(None, ctypes.c_int)
def say_and_exit(signal_number: int) -> None:
    """Ends the process. To return would read the same address again, for ever."""
    os.write(2, SENTENCE.encode())
    os._exit(EXIT_CODE)


def answer_bus_errors() -> None:
    """Installs the handler. Called at each opening of a file, for others (torch's workers) install theirs.

    Python's own handlers run between two instructions, and the one that failed never ends. So this
    one is called by the C library.
    """
    ctypes.CDLL(None).signal(signal.SIGBUS, say_and_exit)
