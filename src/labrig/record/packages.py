"""The installed packages, as env.txt lists them."""

from __future__ import annotations

import json
import re
from importlib.metadata import Distribution, distributions
from pathlib import Path

from ..machine.secrets import without_credentials
from ..project import LIBRARY
from .editable import editable_state
from .package_files import edited_state

HEADER = re.compile(r"^(Name|Version): *(.+)$", re.MULTILINE)


def installed_packages(project_root: Path | None = None, check_files: bool = False) -> list[str]:
    """`name==version` of every installed distribution, sorted by name.

    ` @ URL` follows when it does not come from an index: a directory, a file or a repository. Then
    come the commit of an editable install, and the files that were edited after the installation.

    Args:
        project_root: the project, whose own commit is recorded elsewhere.
        check_files: compare every installed file with the hash that its RECORD holds.
    """
    lines: dict[str, str] = {}
    for distribution in distributions():
        headers = read_headers(distribution)
        name = headers.get("Name")
        # Of two versions, Python imports the one that comes first on the path.
        if name and name.lower() not in lines:
            line = f"{name}=={headers.get('Version')}{origin_of(distribution)}"
            line += editable_state(distribution, project_root)
            if check_files:
                line += edited_state(distribution)
            lines[name.lower()] = line
    return [lines[key] for key in sorted(lines)]


def read_headers(distribution: Distribution) -> dict[str, str]:
    """Name and version of a distribution.

    `distribution.metadata` has both, but parses each package's README too: 33 ms instead of 5 ms
    for 130 packages.
    """
    # The files of a wheel, of an .egg-info directory, and of a single .egg-info file.
    texts = (distribution.read_text(name) for name in ("METADATA", "PKG-INFO", ""))
    text = next(filter(None, texts), "")
    headers = text.partition("\n\n")[0]
    return dict(HEADER.findall(headers))


def origin_of(distribution: Distribution) -> str:
    """` @ URL` of what was not installed from an index, else an empty string."""
    try:
        direct = json.loads(distribution.read_text("direct_url.json") or "{}")
    except ValueError:
        return ""
    return f" @ {without_credentials(direct['url'])}" if "url" in direct else ""


def other_packages(lines: list[str]) -> dict[str, str]:
    """As `versions_by_name`, without labrig: that is frozen with the code, and compared there."""
    return {
        name: version for name, version in versions_by_name(lines).items() if name != LIBRARY.name
    }


def versions_by_name(lines: list[str]) -> dict[str, str]:
    """The lines of env.txt as {name: version}, with names as PyPI writes them: `hydra-core`."""
    versions = {}
    for line in lines:
        name, separator, version = line.partition("==")
        if separator:
            versions[re.sub(r"[-_.]+", "-", name).lower()] = version
    return versions
