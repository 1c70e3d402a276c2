"""Where labrig makes an error: each call of an error's class, or of a function that makes one or ends the program."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from textwrap import shorten

from .text import Texts, is_text

ROOTS = {"LabError": 2}  # class -> exit code
BOOTSTRAP = "tools/bootstrap.py"  # of a project: a program that ends by sys.exit(message)


@dataclass(frozen=True)
class Site:
    """A call that makes an error."""

    file: str  # below labrig/, or BOOTSTRAP
    function: str  # as Python's __qualname__, "<module>" outside of functions
    first_line: int
    last_line: int
    exit_code: int
    messages: tuple[str, ...]  # the texts it may have, with values in capitals

    @property
    def key(self) -> tuple[str, str, str]:
        """What names it in the table of tests: lines would change with every edit above."""
        return (self.file, self.function, shorten(self.messages[0], 70, placeholder=""))


@dataclass(frozen=True)
class Maker:
    """A function or an __init__ that makes one error and gets a part of its text as an argument."""

    function: ast.FunctionDef
    text: ast.expr  # of the message, with the parameters of the function
    module: str
    exit_code: int

    @property
    def is_method(self) -> bool:
        return self.function.name != "__init__" and self.function.args.args[0].arg == "self"

    @property
    def parameters(self) -> list[str]:
        arguments = self.function.args
        names = [argument.arg for argument in (*arguments.args, *arguments.kwonlyargs)]
        return [name for name in names if name != "self"]


class Code:
    """The modules of labrig, and the program that installs it in a project."""

    def __init__(self, library: Path, bootstrap: Path | None = None) -> None:
        paths = {str(path.relative_to(library)): path for path in sorted(library.rglob("*.py"))}
        if bootstrap:
            paths[BOOTSTRAP] = bootstrap
        self.modules = {
            name: ast.parse(path.read_text(encoding="utf-8")) for name, path in paths.items()
        }
        self.texts = Texts(self.modules)

    @cached_property
    def classes(self) -> dict[str, int]:
        """The classes of errors, with their exit codes."""
        found = dict(ROOTS)
        definitions = [
            node
            for module in self.modules.values()
            for node in ast.walk(module)
            if isinstance(node, ast.ClassDef)
        ]
        while True:
            new = {
                node.name: exit_code_of(node, found)
                for node in definitions
                if node.name not in found and any(called_name(base) in found for base in node.bases)
            }
            if not new:
                return found
            found |= new

    @cached_property
    def makers(self) -> dict[str, Maker]:
        """The functions that make one error, and the classes that write their own message."""
        found = {}
        for name, module in self.modules.items():
            for node in ast.walk(module):
                if isinstance(node, ast.ClassDef) and node.name in self.classes:
                    found |= self.maker_of_class(name, node)
                if isinstance(node, ast.FunctionDef) and called_name(node.returns) in self.classes:
                    found |= self.maker_of_function(name, node)
                if isinstance(node, ast.FunctionDef) and called_name(node.returns) == "NoReturn":
                    found |= maker_of_end(name, node)
        return found

    def maker_of_class(self, module: str, node: ast.ClassDef) -> dict[str, Maker]:
        for function in node.body:
            if isinstance(function, ast.FunctionDef) and function.name == "__init__":
                (call,) = [
                    call
                    for call in ast.walk(function)
                    if isinstance(call, ast.Call) and ast.unparse(call.func) == "super().__init__"
                ]
                return {node.name: Maker(function, call.args[0], module, self.classes[node.name])}
        return {}

    def maker_of_function(self, module: str, node: ast.FunctionDef) -> dict[str, Maker]:
        calls = [call for call in ast.walk(node) if isinstance(call, ast.Call)]
        made = [call for call in calls if called_name(call.func) in self.classes]
        others = [call for call in calls if called_name(call.func) in ("damaged",)]
        if len(made) != 1 or others:
            return {}
        code = self.classes[called_name(made[0].func)]
        return {node.name: Maker(node, made[0].args[0], module, code)}

    @cached_property
    def made_by_makers(self) -> set[ast.FunctionDef]:
        """The functions whose calls are the sites, in place of what stands in them."""
        return {maker.function for maker in self.makers.values()}

    @cached_property
    def raised(self) -> set[ast.expr]:
        """What stands behind `raise`."""
        nodes = [node for module in self.modules.values() for node in ast.walk(module)]
        return {node.exc for node in nodes if isinstance(node, ast.Raise) and node.exc}

    @cached_property
    def sites(self) -> list[Site]:
        found: list[Site] = []
        for name, module in self.modules.items():
            found += self.sites_in(name, module, [], "")
        return sorted(found, key=lambda site: (site.file, site.first_line))

    def sites_in(
        self, file: str, node: ast.AST, functions: list[ast.FunctionDef], names: str
    ) -> list[Site]:
        """The sites below a node; `names` is the qualified name of the function around it."""
        found = []
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef):
                if child in self.made_by_makers:
                    continue
                inner = f"{names}.<locals>.{child.name}" if functions else f"{names}.{child.name}"
                found += self.sites_in(file, child, [*functions, child], inner.lstrip("."))
            elif isinstance(child, ast.ClassDef):
                found += self.sites_in(file, child, functions, f"{names}.{child.name}".lstrip("."))
            else:
                if isinstance(child, ast.Call):
                    found += self.site_of(file, child, functions, names)
                found += self.sites_in(file, child, functions, names)
        return found

    def site_of(
        self, file: str, call: ast.Call, functions: list[ast.FunctionDef], names: str
    ) -> list[Site]:
        """The site of a call, or none."""
        name = called_name(call.func)
        if file == BOOTSTRAP and ast.unparse(call.func) == "sys.exit" and is_text(call.args[0]):
            known = self.texts.names_in(file, functions)
            return [site_at(file, names, call, 1, self.texts.variants(call.args[0], file, known))]
        maker = self.makers.get(name)
        if maker and maker.is_method != isinstance(call.func, ast.Attribute):
            maker = None
        if maker is None and name not in self.classes and name not in ("type", "error_class"):
            return []
        if name == "type" and call not in self.raised:
            return []
        known = self.texts.names_in(file, functions)
        if maker is None:
            code = self.classes.get(name, 2)
            texts = self.texts.variants(call.args[0], file, known)
        else:
            code = maker.exit_code
            given = dict(zip(maker.parameters, call.args, strict=False))
            given |= {word.arg: word.value for word in call.keywords if word.arg}
            values = {
                parameter: self.texts.text(value, file, known) for parameter, value in given.items()
            }
            inner = self.texts.names_in(maker.module, [maker.function]) | values
            texts = self.texts.variants(maker.text, maker.module, inner)
        return [site_at(file, names, call, code, texts)]


def site_at(file: str, function: str, call: ast.Call, exit_code: int, texts: list[str]) -> Site:
    end = call.end_lineno or call.lineno
    return Site(file, function or "<module>", call.lineno, end, exit_code, tuple(texts))


def maker_of_end(module: str, node: ast.FunctionDef) -> dict[str, Maker]:
    """A function that ends the program with a message; none where it becomes another program."""
    calls = [call for call in ast.walk(node) if isinstance(call, ast.Call)]
    for call in calls:
        if ast.unparse(call.func) == "sys.exit":
            return {node.name: Maker(node, call.args[0], module, exit_code=1)}
    return {}


def called_name(node: ast.expr | None) -> str:
    """The last name of what is called: damaged, LabError, of `type(error)(...)`: type."""
    if isinstance(node, ast.Call):
        return called_name(node.func)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def exit_code_of(node: ast.ClassDef, classes: dict[str, int]) -> int:
    for statement in node.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "exit_code":
            return ast.literal_eval(statement.value)
    return next(classes[called_name(base)] for base in node.bases if called_name(base) in classes)
