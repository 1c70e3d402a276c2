"""How dense the code is: for each folder of a project and of labrig, what the people who read it can feel.

    python benchmarks/readability.py [FOLDER ...]     FOLDER: another one, for example of an earlier commit

No gate: a table.
"""

import ast
import io
import statistics
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COUNTED = (
    ROOT / "tests/project",
    ROOT / "src/labrig",
)  # what the template renders, and the library
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
COLUMNS = (
    "files",
    "median lines",
    "longest",
    "code lines",
    "tokens a code line",
    "lines > 100 columns",
    "conditional expressions per 1,000 code lines",
)


def docstring_lines(tree: ast.AST) -> set[int]:
    lines = set()
    for node in ast.walk(tree):
        documented = isinstance(
            node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        )
        if documented and ast.get_docstring(node):
            lines |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return lines


def code_tokens(text: str) -> list[tokenize.TokenInfo]:
    """Tokens without comments and docstrings."""
    docstrings = docstring_lines(ast.parse(text))
    return [
        token
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in NO_CODE and token.start[0] not in docstrings
    ]


def code_lines(text: str) -> int:
    """Lines without blank lines, comments and docstrings."""
    lines = set()
    for token in code_tokens(text):
        lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines)


def measure(paths: list[Path]) -> list[str]:
    """One row of the table, in the order of COLUMNS."""
    texts = [path.read_text(encoding="utf-8") for path in paths]
    lines = [line for text in texts for line in text.splitlines()]
    lengths = [len(text.splitlines()) for text in texts]
    n_code = sum(map(code_lines, texts))
    n_tokens = sum(len(code_tokens(text)) for text in texts)
    n_conditional = sum(
        isinstance(node, ast.IfExp) for text in texts for node in ast.walk(ast.parse(text))
    )
    return [
        f"{len(paths)}",
        f"{statistics.median(lengths):.0f}",
        f"{max(lengths)}",
        f"{n_code:,}",
        f"{n_tokens / n_code:.1f}",
        f"{sum(len(line) > 100 for line in lines) / len(lines):.1%}",
        f"{1000 * n_conditional / n_code:.0f}",
    ]


def python_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def rows(folder: Path) -> dict[str, list[Path]]:
    """The files of each row: a row for each folder in `folder`, for the files next to them, for all."""
    files = {
        f"{folder.name}/{inner.name}": python_files(inner)
        for inner in sorted(folder.iterdir())
        if inner.is_dir()
    }
    files[f"{folder.name}/*.py"] = sorted(folder.glob("*.py"))
    files[f"**{folder.name}**"] = python_files(folder)
    return {name: paths for name, paths in files.items() if paths}


def main() -> None:
    folders = [Path(word) for word in sys.argv[1:]] or COUNTED
    print("| folder | " + " | ".join(COLUMNS) + " |")
    print("|---" * (len(COLUMNS) + 1) + "|")
    for folder in folders:
        for name, paths in rows(folder).items():
            print(f"| {name} | " + " | ".join(measure(paths)) + " |")


if __name__ == "__main__":
    main()
