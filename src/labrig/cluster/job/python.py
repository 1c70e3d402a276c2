"""How Python starts in a job: from the environment, from one packed or made on the node, or in a container."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ... import env
from ...record.files.schema import ImageFacts
from ..sites.site import Site

if TYPE_CHECKING:
    from ..image.packed import Image

ON_NODE = '"$NODE_DIR/env/bin/python"'


@dataclass(frozen=True)
class JobPython:
    """Parts of the job script, as shell.

    Args:
        words: of the array PYTHON.
        environment: lines of the job's environment.
        prepare: lines that each node runs once.
        launcher_options: of the step with the ranks.
    """

    words: str
    environment: list[str] = field(default_factory=list)
    prepare: list[str] = field(default_factory=list)
    launcher_options: list[str] = field(default_factory=list)


def job_python(
    site: Site,
    python: Path,
    image: Image | None,
    facts: ImageFacts | None,
    mounts: Sequence[str],
) -> JobPython:
    """The parts for an image, for the centre's wheels, or for the environment itself.

    Args:
        python: that of the environment which submits.
        mounts: words of the shell: directories that a container needs.
    """
    if site["python"] == "wheelhouse":
        return JobPython(ON_NODE, prepare=installing())
    if image is None or facts is None:
        return JobPython(words=shlex.quote(str(python)))
    file = shlex.quote(facts["file"])
    exports = [f"export {env.IMAGE}={file} {env.IMAGE_SHA256}={facts['sha256']}"]
    if image.form == "packed":
        return JobPython(ON_NODE, exports, unpacking(file))
    if image.form == "pyxis":
        options = ["--no-container-remap-root", f"--container-image={file}"]
        options.append('"--container-mounts=$MOUNTS"')
        return JobPython("python3", [*exports, *mount_lines(mounts, "$place:$place")], [], options)
    command = shlex.join([image.form, "exec", *site["container"]["options"]])
    variable = f"{image.form.upper()}_BIND"  # modules of a centre set it, too
    export = f"export {variable}=${{{variable}:+${variable},}}$MOUNTS"
    binds = [*mount_lines(mounts, "$place"), export]
    return JobPython(f"{command} {file} python3", [*exports, *binds])


def unpacking(file: str) -> list[str]:
    """Unpacks an environment on a node, where its commands begin with another Python."""
    return [
        f'unpack {file} "$NODE_DIR/env" # the packages, from one file',
        'find "$NODE_DIR/env/bin" -type f -size -64k -exec \\',
        '  sed -i "1s|^#!/.*/bin/python[0-9.]*|#!$NODE_DIR/env/bin/python|" {} +',
    ]


def installing() -> list[str]:
    """Makes an environment on a node. What came from a directory or a repository has no wheel."""
    return (Path(__file__).parent / "wheelhouse.sh").read_text(encoding="utf-8").splitlines()


def mount_lines(mounts: Sequence[str], entry: str) -> list[str]:
    """Joins the directories that exist as MOUNTS."""
    return [
        'MOUNTS=""',
        f"for place in {' '.join(mounts)}; do",
        f'  [ ! -d "$place" ] || MOUNTS+=${{MOUNTS:+,}}{entry}',
        "done",
    ]


def outermost(places: Sequence[Path]) -> list[Path]:
    """The directories that lie in no other one of them, in their order."""
    several = list(dict.fromkeys(places))
    return [place for place in several if not any(other in place.parents for other in several)]
