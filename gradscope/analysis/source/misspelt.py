"""Finds attributes that a program sets and nothing reads, with names like those of autograd."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

ALIKE = 0.85
"""Least similarity of names, as measured by difflib."""

METHOD = "requires_grad_"
"""May be called elsewhere, but assigning it is always wrong."""

GRADIENTS = frozenset(("grads", "grad_", "gradient", "gradients"))
NEARLY_ASKS = re.compile(r"requir\w{0,3}_?grad(s|_|ient|ients)?$")


class Misspelt(NamedTuple):
    """A statement that sets an attribute with a misspelt name."""

    line: int
    name: str
    meant: str


class _Scan(ast.NodeVisitor):
    """The attributes that a file sets, and the names it uses in other ways."""

    def __init__(self) -> None:
        self.found: list[Misspelt] = []
        self.used: set[str] = set()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for each in node.body:  # its own attributes and methods
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                self.used.add(each.name)
            targets = each.targets if isinstance(each, ast.Assign) else []
            targets = [each.target] if isinstance(each, ast.AnnAssign) else targets
            self.used.update(one.id for one in targets if isinstance(one, ast.Name))
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            if isinstance(target, ast.Attribute):
                self._set(node.lineno, target.value, target.attr, node.value)
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.ctx, ast.Load):
            self.used.add(node.attr)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        arguments = node.args
        if isinstance(node.func, ast.Name) and node.func.id == "setattr" and len(node.args) == 3:
            owner, name, value = node.args
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                self._set(node.lineno, owner, name.value, value)
                arguments = [owner, value]
        for each in (node.func, *arguments, *node.keywords):
            self.visit(each)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):  # getattr, __slots__
            self.used.add(node.value)

    def _set(self, line: int, owner: ast.expr, name: str, value: ast.expr) -> None:
        meant = meant_by(name, value)
        if isinstance(owner, ast.Name) and owner.id in {"self", "cls"}:
            self.used.add(name)  # an attribute of one of the program's own classes
        elif meant:
            self.found.append(Misspelt(line, name, meant))


def meant_by(name: str, value: ast.expr) -> str:
    """The similar attribute that autograd reads; "" if there is none."""
    constant = value.value if isinstance(value, ast.Constant) else ...
    if name in GRADIENTS and constant is None:
        return "grad"
    if name != "requires_grad" and (_is_nearly(name, "requires_grad") or NEARLY_ASKS.match(name)):
        return "requires_grad"
    if name != "training" and isinstance(constant, bool) and _is_nearly(name, "training"):
        return "training"
    return ""


def _is_nearly(name: str, other: str) -> bool:
    return SequenceMatcher(None, name, other).ratio() >= ALIKE


def misspelt(trees: Sequence[ast.Module]) -> Iterator[tuple[int, Misspelt]]:
    """The misspelt attributes of a program, each with the index of its file.

    None of them is read anywhere in the program.
    """
    scans = [_Scan() for _ in trees]
    for scan, tree in zip(scans, trees, strict=True):
        scan.visit(tree)
    used = set[str]().union(*(scan.used for scan in scans))
    for number, scan in enumerate(scans):
        for each in scan.found:
            if each.name == METHOD or each.name not in used:
                yield number, each
