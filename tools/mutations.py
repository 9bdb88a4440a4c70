"""Small faults that can be put into a Python module: `mutants.py` measures which of them the tests notice."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

SWAPPED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Add: ast.Sub, ast.Sub: ast.Add,
}  # fmt: skip


class Change(NamedTuple):
    """A fault in a file: the text from `start` to `end` (bytes) becomes `now`."""

    kind: str
    start: int
    end: int
    now: str


def _replacements(node: ast.AST) -> Iterator[tuple[str, ast.AST, str]]:
    """Yield kind of change, the node to replace, and its new text."""
    match node:
        case ast.Compare(left, [first, *rest], comparators) if type(first) in SWAPPED:
            swapped = ast.Compare(left, [SWAPPED[type(first)](), *rest], comparators)
            yield "comparison swapped", node, f"({ast.unparse(swapped)})"
        case ast.BinOp(left, ast.Add() | ast.Sub() as sign, right):
            swapped = ast.BinOp(left, SWAPPED[type(sign)](), right)
            yield "sign swapped", node, f"({ast.unparse(swapped)})"
        case ast.AugAssign(target, ast.Add() | ast.Sub() as sign, value):
            yield "sign swapped", node, ast.unparse(ast.AugAssign(target, SWAPPED[type(sign)](), value))
        case ast.If(test) | ast.While(test) | ast.IfExp(test):
            yield "condition negated", test, f"({ast.unparse(ast.UnaryOp(ast.Not(), test))})"
        case ast.Constant(bool(value)):
            yield "constant changed", node, repr(not value)
        case ast.Constant(int(value) | float(value)):
            yield "constant changed", node, repr(value + 1)
        case ast.Constant(str(value)):
            yield "constant changed", node, repr(value + "~")
        case ast.Constant(bytes(value)):
            yield "constant changed", node, repr(value + b"~")
        case ast.Expr(ast.Call()):
            yield "call dropped", node, "pass"
        case ast.Return(value) if value is not None and ast.unparse(value) != "None":
            yield "None returned", node, "return None"


def _nodes(node: ast.AST, in_function: bool = False) -> Iterator[ast.AST]:
    """Yield the nodes in functions, not docstrings, annotations or f-strings (Python 3.11 misplaces their parts)."""
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        return
    if in_function:
        yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        begins = name == "body" and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _nodes(child, in_function or begins)


def find_changes(source: bytes) -> dict[int, list[Change]]:
    """Return all faults that can be put into a module, by line."""
    offsets = [0]
    for line in source.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    changes = defaultdict(list)
    for found in _nodes(ast.parse(source)):
        for kind, node, now in _replacements(found):
            start = offsets[node.lineno - 1] + node.col_offset
            end = offsets[node.end_lineno - 1] + node.end_col_offset
            changes[node.lineno].append(Change(kind, start, end, now))
    return dict(changes)


def apply(source: bytes, change: Change) -> bytes:
    """Return the module with the fault in it."""
    return source[: change.start] + change.now.encode() + source[change.end :]
