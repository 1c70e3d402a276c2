"""What must hold for every rendered project: each file parses, and says what was answered."""

import ast
import re
import subprocess
import sys
import tomllib

import yaml
from markdown_it import MarkdownIt


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def check_project(folder, **answers):
    """Every file parses, no Jinja is left, the answers read back. Returns the package's name."""
    for name in files(folder):
        path, text = folder / name, (folder / name).read_text(encoding="utf-8")
        assert "{" not in name
        assert path.suffix != ".jinja"
        if path.suffix == ".py":
            ast.parse(text)
            assert "{%" not in text
            assert "{{package_name" not in text
            continue
        if not any("{" in answer for answer in answers.values()):
            assert not re.search(r"\{\{|\{%", text), name
        if path.suffix in (".yaml", ".yml", ".cff"):
            yaml.safe_load(path.read_text(encoding="utf-8"))
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = yaml.safe_load((folder / "CITATION.cff").read_text(encoding="utf-8"))
    recorded = yaml.safe_load((folder / ".copier-answers.yml").read_text(encoding="utf-8"))
    tokens = (
        MarkdownIt("commonmark")
        .enable(["table", "strikethrough"])
        .parse((folder / "README.md").read_text())
    )
    shown = [
        "".join(part.content for part in token.children)
        for token in tokens
        if token.type == "inline"
    ]
    assert {name: recorded[name] for name in answers} == answers
    assert shown[:2] == [recorded["project_name"], recorded["description"]]
    assert citation["title"] == recorded["project_name"]
    assert project["description"] == citation["abstract"] == recorded["description"]
    assert project["authors"][0]["name"] == citation["authors"][0]["name"] == recorded["author"]
    assert citation.get("license", "none") == recorded["license"]
    assert recorded["author"] in (folder / "LICENSE").read_text(encoding="utf-8")
    package = recorded["package_name"]
    assert project["name"] == package
    assert project["dependencies"][0] == f"{package}[lab]"
    assert (folder / "src" / package).is_dir()
    return package


def lint(*folders):
    """What ruff objects to in these folders: nothing, when they are clean."""
    complaints = ""
    for command in (["check", "--output-format=concise"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--quiet", "--no-cache", *folders],
            capture_output=True,
            text=True,
        )
        complaints += done.stdout + done.stderr
    return complaints
