"""`lab logbook`: imported when it is called, so it may import what it likes."""

import argparse
import json

from labrig.errors import LabError

from . import FILE, logbook_file


def logbook_command(project, args):
    """Prints the last lines of the lab's logbook.

    Args:
        project: the one that the command is typed in: project.root, project.package.
        args: what was typed after `lab logbook`.

    Raises:
        LabError: the variable is not set; the message is all that a user sees, with exit code 2.
    """
    parser = argparse.ArgumentParser("lab logbook", description="The last trainings of our lab.")
    parser.add_argument("-n", type=int, default=10, help="how many (default: %(default)s)")
    n_lines = parser.parse_args(args).n
    file = logbook_file()
    if file is None:
        raise LabError(f"${FILE} is not set. Type: export {FILE}=/shared/ourlab/logbook.jsonl")
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    for text in lines[-n_lines:]:
        line = json.loads(text)
        metrics = "  ".join(f"{name} {value:.4g}" for name, value in line["metrics"].items())
        print(f"{line['ended']}  {line['user']:<10} {line['trial']:<16} {metrics}")
