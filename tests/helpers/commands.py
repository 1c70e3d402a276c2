"""What tests need around the commands that they start."""

import json
import socket


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def json_line(output):
    """The value of the one line of `output` that is a JSON object."""
    (line,) = [line for line in output.splitlines() if line.startswith("{")]
    return json.loads(line)


def write_command(folder, name, script):
    """Writes an executable `name`, for a directory of PATH. The script begins with its #! line."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(script)
    path.chmod(0o755)
    return path
