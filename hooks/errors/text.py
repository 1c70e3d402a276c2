"""The text of a message in the code, with a word in capitals for each value that it will hold."""

from __future__ import annotations

import ast
import re

HIDDEN = {"nearest"}  # what it adds, "; did you mean: X", depends on what was typed
VAGUE = {"name", "id", "dir", "value", "args", "text", "strip", "stderr", "words"}
NOT_SAID = {"self", "str", "list", "sorted", "map", "printable", "shorten", "repr", "int", "abs"}
SOMETIMES = re.compile("(.*_)?(ADVICE|HINT|SUGGESTION|KEYS)|OF_TRIAL")  # glued to another word
MAX_DEPTH = 6


class Texts:
    """Reads texts in the modules of lab."""

    def __init__(self, modules: dict[str, ast.Module]) -> None:
        self.modules = modules
        self.constants = {
            file: constants_of(module.body, only_capitals=True) for file, module in modules.items()
        }
        self.functions: dict[str, list[tuple[str, ast.FunctionDef]]] = {}
        for file, module in modules.items():
            for node in module.body:
                if isinstance(node, ast.FunctionDef):
                    self.functions.setdefault(node.name, []).append((file, node))

    def names_in(self, file: str, functions: list[ast.FunctionDef]) -> dict[str, str]:
        """The texts that are assigned in the functions around a call."""
        known: dict[str, str] = {}
        for function in functions:
            for name, value in constants_of(list(ast.walk(function))).items():
                if is_text(value):
                    known[name] = self.text(value, file, known)
                elif texts := self.inlined(value, file, known):
                    known[name] = texts[0]
        return known

    def variants(self, node: ast.expr, file: str, known: dict[str, str]) -> list[str]:
        """The texts that a message may have: several where a function returns one of several."""
        return self.inlined(node, file, known) or [self.text(node, file, known)]

    def inlined(self, call: ast.expr, file: str, known: dict[str, str]) -> list[str]:
        """The texts that a function of lab returns; none when they are not written in it."""
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            return []
        if call.func.id == "counted":
            return [self.text(call, file, known)]
        places = self.functions.get(call.func.id, [])
        own = [place for place in places if place[0] == file] or places
        if len(own) != 1 or call.func.id in HIDDEN | NOT_SAID:
            return []
        module, function = own[0]
        returned = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
        if not all(value is not None and is_text(value) for value in returned):
            return []
        parameters = [argument.arg for argument in function.args.args]
        values = {
            name: self.text(value, file, known)
            for name, value in zip(parameters, call.args, strict=False)
        }
        inner = self.names_in(module, [function]) | values
        return [self.text(value, module, inner) for value in returned if value is not None]

    def text(self, node: ast.expr, file: str, known: dict[str, str], depth: int = 0) -> str:
        """The text of an expression; a value becomes a word in capitals."""
        if depth > MAX_DEPTH:
            return word_for(node)

        def text(inner: ast.expr) -> str:
            return self.text(inner, file, known, depth + 1)

        match node:
            case ast.Constant(value=str(value)):
                return value
            case ast.Constant(value=value):
                return str(value)
            case ast.JoinedStr(values=values):
                return joined_parts([text(value) for value in values])
            case ast.FormattedValue(value=value, conversion=conversion):
                inside = text(value)
                return f"'{inside}'" if conversion == ord("r") else inside
            case ast.BinOp(left=left, op=ast.Add(), right=right) if is_text(left) or is_text(right):
                return text(left) + text(right)
            case ast.IfExp(body=body, orelse=orelse):
                return text(body) or text(orelse)
            case ast.BoolOp(values=values):
                return text(values[0])
            case ast.GeneratorExp(elt=elt) | ast.ListComp(elt=elt):
                return text(elt)
            case ast.Name(id=name):
                return self.named(name, file, known, depth)
            case ast.Attribute(value=ast.Name(id="env"), attr=name):
                return text(self.constants["env.py"].get(name, ast.Name(name.lower())))
            case ast.Call(func=ast.Attribute(value=ast.Constant(), attr="join"), args=[joined]):
                return text(joined)
            case ast.Call(func=ast.Name(id=name)) if name in HIDDEN:
                return ""
            case ast.Call(func=ast.Name(id="len")):
                return "N"
            case ast.Call(func=ast.Name(id="counted"), args=[_, noun]):
                return f"N {text(noun)}s"
            case ast.Call(func=ast.Name()):
                inlined = self.inlined(node, file, known)
                return inlined[0] if inlined else word_for(node)
        return word_for(node)

    def named(self, name: str, file: str, known: dict[str, str], depth: int) -> str:
        """The text of a variable: what was assigned to it, or its name."""
        if name in known:
            return known[name]
        if name.isupper() or name.startswith("_"):
            for constants in (self.constants[file], *self.constants.values()):
                if name in constants:
                    return self.text(constants[name], file, known, depth + 1)
        return word_of(name)


def joined_parts(parts: list[str]) -> str:
    """The parts of an f-string as one text, without what is added only sometimes."""
    text = ""
    for part in parts:
        is_glued = text != "" and not text[-1].isspace()
        if is_glued and SOMETIMES.fullmatch(part):
            continue
        if text[-1:].isupper() and re.match(r"[A-Z][a-z]", part):
            text += " "  # lines end before it
        text += part
    return text


def constants_of(body: list[ast.AST] | list[ast.stmt], only_capitals: bool = False) -> dict:
    """Name -> expression, of the variables with a text; the first where there are several."""
    found: dict[str, ast.expr] = {}
    for node in body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name, value = node.targets[0].id, node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            name, value = node.target.id, node.value
        else:
            continue
        if only_capitals and not name.isupper():
            continue
        if is_text(value) or isinstance(value, ast.Call):
            found.setdefault(name, value)
    return found


def is_text(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=value):
            return isinstance(value, str) and value != ""
        case ast.JoinedStr():
            return True
        case ast.IfExp(body=body):
            return is_text(body)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return is_text(left) or is_text(right)
    return False


def word_for(node: ast.expr) -> str:
    """A word in capitals for a value: of `run.id` RUN, of `self.path` PATH."""
    parts = re.split(r"\W+", ast.unparse(node))
    names = [part for part in parts if part[:1].isalpha() and part not in NOT_SAID]
    match node:
        case ast.Attribute(value=value, attr=attr) if attr not in VAGUE:
            return word_of(attr)
        case ast.Attribute(value=value):
            return word_for(value) if word_for(value) != "VALUE" else word_of(node.attr)
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            return word_of(key)
        case ast.Subscript(value=value):
            return word_for(value)
        case ast.Call(func=ast.Attribute(value=value)) if not isinstance(value, ast.Constant):
            return word_for(value)
        case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in NOT_SAID:
            return word_for(first)
        case ast.Call(func=ast.Name(id=name)):
            return word_of(name)
    return word_of(names[0]) if names else "VALUE"


def word_of(name: str) -> str:
    return name.strip("_").upper() or "VALUE"
