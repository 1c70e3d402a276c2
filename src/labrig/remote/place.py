"""A project's place on a host: its code and its environment, each made when it is not there.

```
<path of hosts.yaml>/<project>/
  data/ runs/                             as in any project; the site may have them elsewhere
  runs/.remote/bundles/                   the code as git bundles; only what is new travels
  runs/.remote/code/<commit>.<library>/   unpacked, to run `lab` there
  runs/.remote/environments/<lock>/       Python and packages, one for each lock file
  runs/.remote/received/<run id>.json     what was sent there, and the job
```

Every step may be repeated: it makes its result under another name, and renames it.
"""

from __future__ import annotations

import json
import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .. import env
from ..errors import Failed
from ..project import LABEL, Project
from ..record.freeze.wheel import write_wheel
from .connection import MARK, Connection, Quoted, host_script
from .frozen import SentCode
from .sent import REMOTE

READY = "lab-ready.txt"  # in an environment that was made to its end


@dataclass(frozen=True)
class HostPlace:
    """A project's place on a host, as an absolute path, and what is there already."""

    path: str
    present: frozenset[str]


def prepare(connection: Connection, project: Project, frozen: SentCode) -> tuple[str, list[str]]:
    """Brings code and environment to the host, as far as they are not there.

    Returns:
        The project's place there, and the words before a module of the frozen code.

    Raises:
        LostConnection: type the same again; what was made stays.
        Failed: a step failed on the host.
    """
    place = look(connection, project, frozen)
    host = connection.host.name
    if "code" not in place.present:
        missing = [name for name in frozen.bundles if name not in place.present]
        for name in missing:
            upload(connection, frozen.store / name, f"{place.path}/{REMOTE}/bundles/{name}")
        unpack(connection, frozen, place)
        print(f"lab: {host} has the code {frozen.code['commit'][:12]}", flush=True)
    if "environment" not in place.present:
        make_environment(connection, frozen, place)
    return place.path, python_words(frozen, place)


def look(connection: Connection, project: Project, frozen: SentCode) -> HostPlace:
    """Makes the place if need be, and lists what is there."""
    path = connection.host.path
    if path.startswith("~"):
        path = f"$HOME{path[1:]}"
    # The host replaces the $VARIABLES of its own path, and nothing in the name of a directory of ours.
    inner = shlex.quote(f"{project.root.name}/{frozen.code['prefix']}{REMOTE}")
    script = host_script(
        "look",
        mark=MARK,
        folder=Quoted(f'"{path}"/{inner}'),
        label=f"code/{code_name(frozen)}/{LABEL}",
        ready=f"environments/{frozen.lock}/{READY}",
        bundles=frozen.bundles,
    )
    lines = connection.answers(script)
    places = [line.removeprefix("place ") for line in lines if line.startswith("place /")]
    if not places:
        raise Failed(
            f"{connection.host.name}: {path} cannot be made or is not a path there; see above"
        )
    return HostPlace(places[0].removesuffix(f"/{REMOTE}"), frozenset(lines))


def upload(connection: Connection, source: Path, target: str) -> None:
    """Copies one file; half of one never has its name."""
    with open(source, "rb") as file:
        n_bytes = source.stat().st_size
        connection.run(host_script("upload", file=target, n_bytes=n_bytes), stdin=file)


def unpack(connection: Connection, frozen: SentCode, place: HostPlace) -> None:
    """Writes the files of the commit and of the library, with the label that names them."""
    label = json.dumps(frozen.code).encode()
    bundles = [
        bundle
        for bundle in frozen.bundles
        # Other submodules are unpacked for the job.
        if "/" not in bundle or bundle.startswith(f"{env.FROZEN_LIBRARY}/")
    ]
    script = host_script(
        "unpack",
        folder=f"{place.path}/{REMOTE}",
        bundles=bundles,
        name=code_name(frozen),
        commit=frozen.code["commit"],
        library=frozen.library["commit"],
        library_folder=env.FROZEN_LIBRARY,
        label=LABEL,
        n_bytes=len(label),
    )
    connection.run(script, stdin=label)


def make_environment(connection: Connection, frozen: SentCode, place: HostPlace) -> None:
    """Makes the environment of the lock, as `make setup` does; its output is shown."""
    host = connection.host.name
    print(f"lab: {host} has no environment for this lock file; making it takes minutes", flush=True)
    with tempfile.TemporaryDirectory(prefix="lab-library-") as temporary:
        wheel = write_wheel(Path(temporary))
        library = f"{place.path}/{REMOTE}/library/{frozen.library['commit'][:12]}/{wheel.name}"
        upload(connection, wheel, library)
    script = host_script(
        "environment",
        code=f"{code_folder(frozen, place)}/{frozen.code['prefix']}",
        environment=environment_folder(frozen, place),
        library=library,
        ready=READY,
    )
    if connection.show(script):
        raise Failed(
            f"{host}: the environment could not be made, see above.\n"
            "A newer Python there: a line such as  before: module load python/3.12  for this host"
        )


def code_folder(frozen: SentCode, place: HostPlace) -> str:
    return f"{place.path}/{REMOTE}/code/{code_name(frozen)}"


def code_name(frozen: SentCode) -> str:
    """The name of the directory with the code and the library."""
    return f"{frozen.code['commit'][:12]}.{frozen.library['commit'][:12]}"


def environment_folder(frozen: SentCode, place: HostPlace) -> str:
    return f"{place.path}/{REMOTE}/environments/{frozen.lock}"


def python_words(frozen: SentCode, place: HostPlace) -> list[str]:
    """The words that start Python on the host with the frozen code, for the project's place."""
    code = code_folder(frozen, place)
    commit, prefix = frozen.code["commit"], frozen.code["prefix"]
    variables = env.frozen_environment(Path(code), prefix, Path(place.path), commit)
    assignments = [f"{name}={value}" for name, value in variables.items()]
    return ["env", *assignments, f"{environment_folder(frozen, place)}/bin/python", "-m"]
