"""The installed library as a wheel again, from its files: no build tool and no network are needed.

The format: PEP 427, and the binary distribution format of packaging.python.org.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

from ...docs.pages import page_files, themes_file
from ...errors import Failed
from ...project import LIBRARY
from ...version import __version__
from .library import file_versions, installation_facts

WHEEL = "Wheel-Version: 1.0\nGenerator: labrig\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
FIRST_DATE = (1980, 1, 1, 0, 0, 0)  # so that the same files make the same wheel


def write_wheel(folder: Path) -> Path:
    """Writes labrig-VERSION-py3-none-any.whl into `folder`, and returns it."""
    facts = installation_facts()
    if not facts:
        raise Failed(f"{LIBRARY} is not installed. Install it: pip install {LIBRARY.parents[1]}")
    contents = {name: Path(path).read_bytes() for name, (path, *_) in file_versions().items()}
    contents |= {f"{LIBRARY.name}/docs/{path.name}": path.read_bytes() for path in page_files()}
    contents[f"{LIBRARY.name}/docs/mkdocs.yml"] = themes_file().read_bytes()
    contents |= {name: text.encode() for name, text in facts}
    dist_info = f"{LIBRARY.name}-{__version__}.dist-info"
    contents[f"{dist_info}/WHEEL"] = WHEEL.encode()
    record = f"{dist_info}/RECORD"
    lines = [record_line(name, content) for name, content in sorted(contents.items())]
    contents[record] = "".join([*lines, f"{record},,\n"]).encode()
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{LIBRARY.name}-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(zipfile.ZipInfo(name, FIRST_DATE), content, zipfile.ZIP_DEFLATED)
    return wheel


def record_line(name: str, content: bytes) -> str:
    """The line of RECORD for a file."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"
