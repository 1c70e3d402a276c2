"""The environment of a job: modules, offline switches, caches, the site's variables; and how Python starts in it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import env
from ...machine.caches import cache_variables, own_cache_variables
from ...record.files.schema import ImageFacts
from ..sites.site import Site

if TYPE_CHECKING:
    from ..image.packed import Image


# Libraries that read these use their caches only.
OFFLINE_SWITCHES = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "WANDB_MODE": "offline",
    "UV_OFFLINE": "1",
    "PIP_NO_INDEX": "1",
}
# What only a rank knows: which one it is, and on which node.
OF_A_RANK = re.compile(r"\$\{?(?:SLURM_(?:PROC|LOCAL|NODE)ID|OMPI_COMM_WORLD_\w+|PMI\w*_RANK)\b")
ON_NODE = '"$NODE_DIR/env/bin/python"'


def job_environment(site: Site, scratch: Path, caches: Path | None) -> list[str]:
    """Shell lines for the job script."""
    lines = _module_lines(site["modules"])
    if not site["internet"]["jobs"]:
        lines.append(f"export {_words(OFFLINE_SWITCHES)} # compute nodes have no internet")
    if not site["home_writable"]:
        lines.append(
            f"export {_words(job_home(site, scratch))} # the real one cannot be written in jobs"
        )
        lines.append('mkdir -p "$HOME"')
    if caches:
        lines.append(f"export {_words({env.CACHES: str(caches)})} # the caches of all tools")
    if own := own_cache_variables():
        lines.append(f"export {_words(own)} # as set where this was submitted")
    lines += [export for export in _exports(site) if not OF_A_RANK.search(export)]
    return lines + site["prologue"]


def rank_environment(site: Site) -> list[str]:
    """Shell lines that each rank runs: the site's variables that differ between ranks."""
    return [export for export in _exports(site) if OF_A_RANK.search(export)]


def _exports(site: Site) -> list[str]:
    return [f"export {name}={_expandable(value)}" for name, value in site["env"].items()]


def _expandable(value: Any) -> str:
    """A word of the shell in which $NAME and ${NAME} are expanded, and nothing else is."""
    text = str(value)
    if "$" not in text:
        return shlex.quote(text)
    return '"' + re.sub(r'[\\`"]|\$(?![A-Za-z_{])', lambda match: "\\" + match[0], text) + '"'


def places_in_job(site: Site, scratch: Path, caches: Path | None) -> dict[str, str]:
    """The variables that say where a job finds what was fetched for it."""
    return job_home(site, scratch) | cache_variables(caches) | own_cache_variables()


def job_home(site: Site, scratch: Path) -> dict[str, str]:
    """HOME where jobs cannot write the real one."""
    return {} if site["home_writable"] else {"HOME": str(scratch / ".home")}


def _words(variables: dict[str, Any]) -> str:
    return " ".join(f"{name}={shlex.quote(str(value))}" for name, value in variables.items())


def _module_lines(modules: dict[str, Any]) -> list[str]:
    if not any(modules.values()):
        return []
    init = shlex.quote(modules["init"] or "/etc/profile")
    lines = [
        "# shellcheck source=/dev/null",
        f"command -v module >/dev/null || source {init} # not a login shell",
    ]
    if modules["purge"]:
        lines.append("module purge")
    lines += [f"module use {_expandable(place)}" for place in modules["use"]]
    if modules["load"]:
        lines.append("module load " + shlex.join(modules["load"]))
    return lines


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
