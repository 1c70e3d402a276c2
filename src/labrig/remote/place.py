"""A project's place on a host: code as bundles, environment and data, each brought when it is not there.

```
<path of hosts.yaml>/<project>/
  data/ runs/                             as in any project; the site may have them elsewhere
  runs/.remote/bundles/                   the code as git bundles; only what is new travels
  runs/.remote/code/<commit>.<library>/   unpacked, to run `lab` there
  runs/.remote/environments/<lock>/       Python and packages, one for each lock file
  runs/.remote/received/<run id>.json     what was sent there, and the job
```

Every step may be repeated: it makes its result under another name, and renames it.

Two things can make a second job of a run. A machine dies after its scheduler took the job and
before it wrote that down, so the run is sent again: then the job that was sent last continues.
And `on=a,b` sends two on purpose: the one that starts first continues.

Who is first is decided by the jobs themselves, when they start: they create one link on the disk
of the first host, which only one process can do. So it also holds while the laptop is off. A job on
another host reaches that disk by itself when the clusters share it, else by `ssh`. Where a node
cannot reach it, its job continues, and the laptop ends one of two running jobs when it next asks.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .. import env
from ..cluster.submit.submit import freeze_points
from ..config.compose import Composition
from ..errors import Failed, LabError, Refused
from ..hdf5.file.errors import DataFileError
from ..hdf5.file.find import find_data_file
from ..hdf5.file.hashes import fingerprint_folder, keep_hash, read_hash, version_key
from ..project import LABEL, Project
from ..record.files.code_section import checked_out_submodules, folder_name, library_of
from ..record.files.schema import Code, Submodule
from ..record.freeze.bundle import STORE, bundle_files, write_bundles
from ..record.freeze.git import Git
from ..record.freeze.wheel import write_wheel
from .connection import MARK, Connection, Quoted, host_script
from .sent import REMOTE

READY = "lab-ready.txt"  # in an environment that was made to its end
LOCKS = ("uv.lock", "pyproject.toml")  # the first that is frozen names the environment


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


@dataclass(frozen=True)
class SentCode:
    """The code of a submission.

    Args:
        codes: the `code` section of the record for each trial; all have one commit.
        store: the directory with its bundles.
        bundles: their paths in the store, in the order in which git can take them.
        lock: names the environment; it changes with the lock file.
    """

    codes: dict[str, Code]
    store: Path
    bundles: list[str]
    lock: str

    @property
    def code(self) -> Code:
        return next(iter(self.codes.values()))

    @property
    def library(self) -> Submodule:
        library = library_of(self.code)
        assert library is not None  # this version has frozen it
        return library


def freeze(project: Project, points: list[Composition], allow: bool) -> SentCode:
    """Freezes the working tree, with whole bundles: the host may reach no remote."""
    runs = project.paths.runs
    codes = freeze_points(project, runs, points, allow)
    git = Git(project.root)
    store = runs / STORE
    codes = {trial: write_bundles(git, store, code, whole=True) for trial, code in codes.items()}
    code = next(iter(codes.values()))
    return SentCode(codes, store, bundle_paths(code), lock_of(git, code))


def bundle_paths(code: Code) -> list[str]:
    """The bundles of a snapshot and of its submodules, relative to the store."""
    paths = [bundle.stored_name for bundle in bundle_files(code)]
    for inner in checked_out_submodules(code):
        paths += [f"{folder_name(inner)}/{path}" for path in bundle_paths(inner)]
    return paths


def lock_of(git: Git, code: Code) -> str:
    """12 letters for the environment that the frozen code asks for."""
    for name in LOCKS:
        done = git.run("show", "--end-of-options", f"{code['commit']}:{code['prefix']}{name}")
        if done.returncode == 0:
            return hashlib.sha256(done.stdout.encode(errors="replace")).hexdigest()[:12]
    raise Refused(
        f"neither {' nor '.join(LOCKS)} is in the code, so no environment can be made."
        " Write one: make setup"
    )


@dataclass(frozen=True)
class LocalData:
    """A data file or folder of the machine that submits.

    Args:
        path: where it lies there; None when it has none of this name.
        sha256: of its content; None when it has none.
    """

    path: str | None
    sha256: str | None


def local_data(points: list[Composition]) -> dict[str, LocalData]:
    """What this machine has of the data of some points, by `data.path` as it is configured."""
    data_by_name = {}
    for name, search in names_of(points).items():
        try:
            path = find_data_file(name, search).resolve()
        except LabError:  # also RUN:FILE of a run that only the host has
            data_by_name[name] = LocalData(None, None)
        else:
            data_by_name[name] = LocalData(str(path), content_hash(path))
    return data_by_name


def names_of(points: list[Composition]) -> dict[str, list[str]]:
    """Each `data.path` with its search path; data without a path is the user's own affair."""
    names = {}
    for point in points:
        section = point.config.get("data")
        path = section.get("path") if hasattr(section, "get") else None
        for name in [path] if isinstance(path, str) else path or []:
            names[name] = list(section.get("search") or point.config.paths.data)
    return names


def content_hash(path: Path) -> str:
    """The hash of a file of `lab data pack`, of a folder, or of any other file; remembered."""
    if path.is_dir():
        return fingerprint_folder(path)["sha256"]
    if path.suffix == ".h5":
        from ..hdf5.file.checksum import fingerprint  # needs NumPy, which the light labrig lacks

        return fingerprint(path)["sha256"]
    key = version_key(path)
    sha256 = read_hash(key)
    if sha256 is None:
        with open(path, "rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        keep_hash(key, sha256)
    return sha256


def check_data(
    project: Project, points: list[Composition], local: dict[str, LocalData], address: str
) -> None:
    """Makes sure, on the host, that its data is that of the machine that submits.

    Args:
        address: the host as `ssh` calls it, for the command that copies a file.
    """
    for name, search in names_of(points).items():
        at_sender = local.get(name, LocalData(None, None))
        try:
            path = find_data_file(name, search).resolve()
        except DataFileError as error:
            raise Refused(missing(project, name, at_sender, address)) from error
        sha256 = content_hash(path)
        if at_sender.sha256 is None:
            print(
                f"lab: {name} is only on the host, so it is compared with nothing: "
                f"sha256 {sha256[:12]}",
                file=sys.stderr,
            )
        elif sha256 != at_sender.sha256:
            raise Refused(
                f"{path} on the host has other content than yours: "
                f"sha256 {sha256[:12]} there, {at_sender.sha256[:12]} here.\n"
                f"To copy yours over it:\n  {copy_command(at_sender, address, path.parent)}"
            )


def missing(project: Project, name: str, there: LocalData, address: str) -> str:
    """What to type when the host has no data of a name."""
    folder = project.paths.data[0] if project.paths.data else project.root / "data"
    if there.path is None:
        return (
            f"the data {name} is neither here nor on the host, whose first place for it is "
            f"{folder}.\nMake it there, for example: lab submit on=HOST job.gpus=0 -- "
            f"lab data pack {Path(name).stem}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    return (
        f"the data {name} is not on the host. Copy it, then type the same again:\n"
        f"  {copy_command(there, address, folder)}"
    )


def copy_command(there: LocalData, address: str, folder: Path) -> str:
    """The command that copies the data of the machine that submits into a folder of the host."""
    source = str(there.path)
    return shlex.join(["rsync", "-avP", "--", source, f"{address}:{folder}/"])


@dataclass(frozen=True)
class Race:
    """A run that was sent to several hosts.

    Args:
        name: of the host of this job.
        judge: the first of the hosts, as `ssh` calls it.
        link: on its disk; it is made by the first job, and names that job's host.
    """

    name: str
    judge: str
    link: str


def guard(sending: Path, nonce: str, race: Race | None) -> str:
    """Lines of shell for the job script.

    Args:
        sending: a file that holds the nonce of the job that was sent last.
        nonce: of this job.
    """
    parts = [host_script("sent_last", sending=sending, nonce=nonce)]
    if race:
        parts.append(race_part(race))
    return "\n".join([*parts, "", ""])


def race_part(race: Race) -> str:
    """Lines that end the job when a job on another host has started first."""
    link = shlex.quote(race.link)
    return host_script(
        "started_first",
        name=race.name,
        judge=race.judge,
        folder=Path(race.link).parent,
        claim=f"ln -sn {shlex.quote(race.name)} {link} 2>/dev/null; readlink {link}",
    )
