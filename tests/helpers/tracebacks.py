"""A command that prints a traceback fails its test: a user's mistake gets a message.

`@pytest.mark.traceback(reason)` allows it where it is meant: in the debugger, with LAB_DEBUG=1, or in a log.
"""

import re
import subprocess

from messages import look_at_output
from warm import Fork

SIGN = re.compile(r"^Traceback \(most recent call last\):$", re.MULTILINE)
ENDED_WITH_A_MESSAGE = (2, 3, 4)  # exit codes of lab
SEEN = []  # what commands printed since the last test ended


def watch_commands():
    """Looks at what each command prints that a test starts, directly or through lab."""
    for process in (subprocess.Popen, Fork):
        process.communicate = watched(process.communicate)


def watched(communicate):
    def communicate_and_look(process, *arguments, **options):
        outputs = communicate(process, *arguments, **options)
        texts = [
            output.decode(errors="replace") if isinstance(output, bytes) else output or ""
            for output in outputs
        ]
        SEEN.extend(text for text in texts if SIGN.search(text))
        if process.returncode in ENDED_WITH_A_MESSAGE:
            look_at_output(texts[1])
        return outputs

    return communicate_and_look


def take_seen():
    """The outputs with a traceback since the last call."""
    texts = list(SEEN)
    SEEN.clear()
    return texts
