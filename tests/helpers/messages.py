"""Every message that a test provokes says what was found and what to type; otherwise the test fails.

Looked at: each LabError that the code of labrig makes in the process of the tests, and what a command ends with.
"""

import re
import sys

from labrig.errors import LabError
from projects import LIBRARY

# A second sentence, a second line, or words that say what is right
INSTRUCTION = re.compile(
    r"[.;] +\S|\S\n+\S|[:,] (lab|make|git|ssh|pip|one of|leave|minimize) "
    r"|\b(expected|must|needs?|takes|at most|write|type|did you mean|it is one of|name it|LAB_DEBUG)\b"
    r"|\bTo [a-z]"
)
PASSED_ON = re.compile(
    r"^[a-z]+ .*failed: ", re.DOTALL
)  # a scheduler's own words; the command adds ours
ENDS = ("stopped at step ", "pruned at step ")  # of a training that was asked to stop: no mistake
SEEN = []  # faults since the last test ended


def fault_of(message):
    """What a message lacks; "" when it says what was found and what to do."""
    words = re.findall(r"\b[a-z]{2,}\b", message)
    if len(words) < 2:
        return f"no sentence: {message!r}"
    if message.startswith(ENDS) or PASSED_ON.match(message) or INSTRUCTION.search(message):
        return ""
    return f"nothing to do or to type: {message!r}"


def watch_messages():
    """Looks at each error that labrig makes from now on. What a test makes itself is its own matter."""

    def make_and_look(error, *arguments):
        Exception.__init__(error, *arguments)
        if sys._getframe(1).f_code.co_filename.startswith(str(LIBRARY)):
            SEEN.append(fault_of(str(error)))

    LabError.__init__ = make_and_look


def look_at_output(text):
    """Looks at the message that ends a command: from the last `lab: ` of its errors on."""
    _, found, message = f"\n{text}".rpartition("\nlab: ")
    if found:
        SEEN.append(fault_of(message.strip()))


def take_faults():
    """What the messages since the last call lack."""
    faults = [fault for fault in SEEN if fault]
    SEEN.clear()
    return faults
