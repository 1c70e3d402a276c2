"""A command that prints a traceback fails its test: a user's mistake gets a message.

`@pytest.mark.traceback(reason)` allows it where it is meant: in the debugger, with LAB_DEBUG=1, or in a log.
"""

import re
import subprocess

from warm import Fork

SIGN = re.compile(r"^Traceback \(most recent call last\):$", re.MULTILINE)
SEEN = []  # what commands printed since the last test ended


def watch_commands():
    """Looks at what each command prints that a test starts, directly or through lab."""
    for process in (subprocess.Popen, Fork):
        process.communicate = watched(process.communicate)


def watched(communicate):
    def communicate_and_look(*arguments, **options):
        outputs = communicate(*arguments, **options)
        for output in outputs:
            text = output.decode(errors="replace") if isinstance(output, bytes) else output or ""
            if SIGN.search(text):
                SEEN.append(text)
        return outputs

    return communicate_and_look


def take_seen():
    """The outputs with a traceback since the last call."""
    texts = list(SEEN)
    SEEN.clear()
    return texts
