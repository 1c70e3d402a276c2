"""The check `imports`: trials stand alone, and contracts of your own."""

from __future__ import annotations

import contextlib
import io
import tempfile
import tomllib
from pathlib import Path

from ..project import this_project

# The name of the package goes in place of PACKAGE. A new trial needs no change here; the check
# `tokens` finds one without __init__.py.
CONTRACTS = """
[tool.importlinter]
root_package = "PACKAGE"

[[tool.importlinter.contracts]]
name = "trials do not import each other"
type = "independence"
modules = ["PACKAGE.trials.*"]

[[tool.importlinter.contracts]]
name = "the package does not import a trial"
type = "protected"
protected_modules = ["PACKAGE.trials"]
allowed_importers = []
"""
OWN_CONTRACTS = (".importlinter", "pyproject.toml")  # where lint-imports looks by itself


def main(names: list[str]) -> int:
    """Checks the whole package when one of the files `names` is Python; 1 on a broken contract."""
    if not any(name.endswith(".py") for name in names):
        return 0
    text = CONTRACTS.replace("PACKAGE", this_project().package)
    with tempfile.TemporaryDirectory(prefix="lab-imports-") as folder:
        contracts = Path(folder, "imports.toml")
        contracts.write_text(text, encoding="utf-8")
        broken = is_broken(str(contracts))
    if has_own_contracts():
        broken |= is_broken(None)
    return int(broken)


def is_broken(config: str | None) -> bool:
    """Runs lint-imports on a file of contracts, or on the project's own (None).

    Prints what it says when a contract is broken.
    """
    from importlinter.cli import lint_imports  # slow, and not every commit has Python in it

    with contextlib.redirect_stdout(io.StringIO()) as report:
        broken = bool(lint_imports(config_filename=config, no_logo=True, no_cache=True))
    if broken:
        print(report.getvalue().strip())
    return broken


def has_own_contracts() -> bool:
    """Whether the project has contracts next to these."""
    name, table = OWN_CONTRACTS
    if Path(name).is_file():
        return True
    if not Path(table).is_file():
        return False
    return "importlinter" in tomllib.loads(Path(table).read_text("utf-8")).get("tool", {})
