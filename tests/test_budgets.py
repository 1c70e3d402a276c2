"""Sizes that keep the project readable in half an hour. Raising one is a change, with its reason."""

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter

import grimp
from importlinter.cli import lint_imports
from projects import PROJECT, ROOT

sys.path.append(str(ROOT / "benchmarks"))
from readability import code_lines

PACKAGE = ROOT / "template/src/{{package_name}}"
PYTHON = sorted(
    path
    for folder in ("src", "template", "tests", "hooks", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
    if "__pycache__" not in path.parts and PROJECT not in path.parents
)
TO_THE_LOSS = (
    "conf/config.yaml.jinja",
    "trials/baseline/config.yaml",
    "train.py",
    "data.py",
    "task.py",
    "trials/baseline/model.py",
)


def lines_of(path):
    """Lines of a file without blank lines, comments and, in Python, docstrings."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return code_lines(text)
    return len([line for line in text.split("\n") if line.strip() and line.strip()[0] != "#"])


def test_code_lines_leaves_out_blanks_comments_and_docstrings():
    text = '''"""Doc."""

# comment
def f():
    """Two
    lines."""
    return (1,

            2)  # end
'''
    assert code_lines(text) == 3


def test_every_python_file_is_shorter_than_500_lines():
    lengths = {path: path.read_text(encoding="utf-8").count("\n") for path in PYTHON}
    assert len(lengths) > 500
    assert [path for path, n_lines in lengths.items() if n_lines >= 500] == []


def test_no_two_classes_of_the_library_share_a_name():
    files = [path for path in PYTHON if ROOT / "src" in path.parents]
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in files]
    classes = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    counts = Counter(node.name for node in classes)
    assert len(counts) > 200
    assert [name for name, n in counts.items() if n > 1] == []


def test_the_bootstrap_is_shorter_than_100_lines():
    assert (ROOT / "template/tools/bootstrap.py").read_text().count("\n") < 100


def test_a_project_has_at_most_40_files():
    files = [
        path for path in PROJECT.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]
    assert 25 < len(files) <= 40


def test_train_py():
    assert lines_of(PACKAGE / "train.py") <= 80


def test_path_from_disk_to_the_loss():
    assert sum(lines_of(PACKAGE / name) for name in TO_THE_LOSS) <= 400


def test_jinja_is_rare_and_never_in_python():
    jinja = [path for path in (ROOT / "template").rglob("*.jinja") if path.name != "answers.jinja"]
    assert len(jinja) <= 10
    assert not [path for path in jinja if ".py." in path.name]
    plain = (ROOT / "template").rglob("*.py")
    assert not [
        path for path in plain if re.search(r"\{%-? *(if|for)", path.read_text(encoding="utf-8"))
    ]


def test_no_file_imports_itself_by_a_circle():
    """Imports inside functions count; those for types alone do not."""
    graph = grimp.build_graph("labrig", cache_dir=None, exclude_type_checking_imports=True)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    in_order = list(TopologicalSorter(imports).static_order())  # CycleError names a circle
    assert "labrig.cli" in in_order


def test_folders_import_only_those_below_them(monkeypatch):
    """The contract is in pyproject.toml, so that `lint-imports` alone checks it too."""
    monkeypatch.chdir(ROOT)
    assert lint_imports(no_cache=True, no_logo=True) == 0


def test_the_templates_files_say_so_and_no_others():
    marked = {
        path.relative_to(ROOT / "template").parts[0]
        for path in (ROOT / "template").rglob("*")
        if path.is_file() and b"Template's file: " in path.read_bytes()[:200]
    }
    assert marked == {".github", ".gitlab", "tools"}


def functions_of(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        node
        for node in tree.body  # a task of Lightning has a method test_step
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def asserts(node):
    fails = isinstance(node, ast.Attribute) and node.attr in ("raises", "fail")
    return fails or isinstance(node, ast.Assert)


def test_every_test_asserts():
    tests = {path: functions_of(path) for path in PYTHON if path.name.startswith("test_")}
    assert [path for path, functions in tests.items() if not functions] == []
    bare = [
        f"{path}::{test.name}"
        for path, functions in tests.items()
        for test in functions
        if not any(asserts(node) for node in ast.walk(test))
    ]
    assert bare == []


def links():
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in names.stdout.split("\n")[:-1]:
        for target in re.findall(r"\]\(([^)\s]+)\)", (ROOT / name).read_text(encoding="utf-8")):
            if not re.match(r"[a-z]+:", target):
                yield name, target


@cache
def headings_of(file):
    headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.M)
    return [re.sub(r"[^\w -]", "", text).strip().lower().replace(" ", "-") for text in headings]


def test_markdown_links_lead_somewhere():
    for name, target in links():
        path, _, heading = target.partition("#")
        file = (ROOT / name).parent / path if path else ROOT / name
        assert file.exists(), f"{name}: {target}"
        assert not heading or heading in headings_of(file), f"{name}: {target}"


def test_documentation_lists_every_page():
    listed = set(
        re.findall(
            r"^ +- (?:[^:\n]+: )?(\S+\.md)$",
            (ROOT / "mkdocs.yml").read_text(encoding="utf-8"),
            re.M,
        )
    )
    assert listed == {path.name for path in (ROOT / "docs").glob("*.md")}
