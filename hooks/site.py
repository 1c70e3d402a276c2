"""`make site`: the pages of docs/ and the functions of `lab`, as a site with search.

python hooks/site.py [FOLDER]     FOLDER: where to, site/ without it. A link that leads nowhere ends it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from judge import ROOT, render


def build(folder: Path) -> int:
    """Builds the site of this repository; the exit code of MkDocs, 1 for a broken link."""
    with tempfile.TemporaryDirectory(prefix="site-") as place:
        # The reference is read from a project: the template's own folder is no package.
        variables = {
            "SITE_SOURCE": str(render(Path(place)) / "src"),
            "NO_MKDOCS_2_WARNING": "1",
        }
        words = ["-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
        done = subprocess.run([sys.executable, *words], cwd=ROOT, env=os.environ | variables)
    return done.returncode


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "site").resolve()
    code = build(target)
    if code == 0:
        print(f"look at it: {sys.executable} -m http.server -d {target}")
    sys.exit(code)
