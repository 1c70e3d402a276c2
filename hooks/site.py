"""`make site`: the pages of docs/ and the public names of labrig, as a site with search.

python hooks/site.py [FOLDER]     FOLDER: where to, site/ without it. A link that leads nowhere ends it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def build(folder: Path) -> int:
    """Builds the site of this repository; the exit code of MkDocs, 1 for a broken link."""
    words = ["-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run([sys.executable, *words], cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "site").resolve()
    code = build(target)
    if code == 0:
        print(f"look at it: {sys.executable} -m http.server -d {target}")
    sys.exit(code)
