"""What must hold for every rendered project: each file parses, and says what was answered."""

import ast
import re
import subprocess
import sys
import tomllib

import yaml
from markdown_it import MarkdownIt


def files(folder):
    """The files of a project, without the caches that tools leave in it."""
    paths = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    return sorted(
        str(path)
        for path in paths
        if not any(re.fullmatch(r"__pycache__|\..*_cache", part) for part in path.parts)
    )


def check_project(folder, **answers):
    """Every file parses, no Jinja is left, the answers read back. Returns the package's name."""
    braces_in_answers = any("{" in answer for answer in answers.values())
    for name in files(folder):
        assert "{" not in name
        assert not name.endswith(".jinja")
        check_file(folder / name, braces_in_answers)
    recorded = yaml.safe_load((folder / ".copier-answers.yml").read_text(encoding="utf-8"))
    assert {name: recorded[name] for name in answers} == answers
    check_texts(folder, recorded)
    package = recorded["package_name"]
    assert (folder / "src" / package).is_dir()
    return package


def check_file(path, braces_in_answers):
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        ast.parse(text)
        assert "{%" not in text
        assert "{{package_name" not in text
    elif not braces_in_answers:
        assert not re.search(r"(?<!\$)\{\{|\{%", text), path  # ${{ is an expression of GitHub
    if path.suffix in (".yaml", ".yml", ".cff"):
        yaml.safe_load(text)


def check_texts(folder, recorded):
    """README, licence, citation and pyproject.toml say what was answered."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = yaml.safe_load((folder / "CITATION.cff").read_text(encoding="utf-8"))
    assert shown_texts(folder / "README.md")[:2] == [
        recorded["project_name"],
        recorded["description"],
    ]
    assert citation["title"] == recorded["project_name"]
    assert project["description"] == citation["abstract"] == recorded["description"]
    assert project["authors"][0]["name"] == citation["authors"][0]["name"] == recorded["author"]
    assert citation.get("license", "none") == recorded["license"]
    assert recorded["author"] in (folder / "LICENSE").read_text(encoding="utf-8")
    assert project["name"] == recorded["package_name"]
    assert project["dependencies"][0] == f"{recorded['package_name']}[lab]"


def shown_texts(page):
    """Headings and paragraphs of a Markdown page, as a reader sees them."""
    reader = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    blocks = reader.parse(page.read_text(encoding="utf-8"))
    return [
        "".join(part.content for part in block.children)
        for block in blocks
        if block.type == "inline"
    ]


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
