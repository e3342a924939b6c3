"""Finds the relevant lines of the program's functions in its source."""

from __future__ import annotations

import ast
import dis
import linecache
from functools import lru_cache
from itertools import islice
from types import CodeType, FunctionType
from typing import NamedTuple

Definition = ast.FunctionDef | ast.AsyncFunctionDef

MOST = 3
"""Number of additional lines that are recorded."""


@lru_cache(maxsize=64)
def parsed(file: str, first: str, many: int) -> ast.Module | None:
    """The current text of a file; `first` and `many`: the lines for which it is read."""
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return None


def tree_of(file: str) -> ast.Module | None:
    """The source of a file; None if it cannot be read."""
    lines = linecache.getlines(file)
    return parsed(file, lines[0], len(lines)) if lines else None


def lines_of_gradient(backward: FunctionType, place: int) -> list[int]:
    """The line that computes the value a backward returns at this index, then contributing lines.

    These are the `return`, and the assignments to names in it.
    """
    code = backward.__code__
    found = _definition(code, tree_of(code.co_filename))
    if found is None:
        last = [line for start, _, line in code.co_lines() if start in _returns(code)]
        return [max((line for line in last if line), default=code.co_firstlineno)]
    inside = _inside(found)
    returns = [each for each in inside if isinstance(each, ast.Return) and each.value is not None]
    if not returns:
        return [found.lineno]
    last_one = max(returns, key=lambda each: each.lineno)
    value = last_one.value
    if isinstance(value, ast.Tuple) and place < len(value.elts):
        value = value.elts[place]
    assert value is not None
    names = {each.id for each in ast.walk(value) if isinstance(each, ast.Name)}
    parts = {each.lineno for each in inside if names & _assigned(each)}  # type: ignore[attr-defined]
    lines = [last_one.lineno, *sorted(parts - {last_one.lineno}, reverse=True)[:MOST]]
    if isinstance(value, ast.Name) and len(lines) > 1:
        lines[:2] = lines[1::-1]
    return lines


def line_that_writes(backward: FunctionType) -> int:
    """The line where a backward writes in place into a gradient it received.

    Otherwise a line that writes into something else, or its first line if it has none.
    """
    code = backward.__code__
    found = _definition(code, tree_of(code.co_filename))
    names = set(code.co_varnames[1 : code.co_argcount])
    writes: list[tuple[bool, int]] = []
    for each in _inside(found) if found else ():
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Name):
            names |= _assigned(each) if each.value.id in names else set()
        written = _written_in(each)
        if written is not None:
            writes.append((written not in names, each.lineno))  # type: ignore[attr-defined]
    return min(writes, default=(True, code.co_firstlineno))[1]


def _written_in(part: ast.AST) -> str | None:
    """The name that is written in place: `g.mul_(2)`, `g *= 2`, `g[0] = 0`; None: no write."""
    target: ast.AST | None = None
    if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
        named = part.func.attr
        target = part.func.value if named.endswith("_") and not named.endswith("__") else None
    elif isinstance(part, ast.AugAssign):
        target = part.target
    elif isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Subscript):
        target = part.targets[0]
    while isinstance(target, ast.Subscript | ast.Attribute):
        target = target.value
    return target.id if isinstance(target, ast.Name) else None


def line_that_keeps(forward: FunctionType, name: str) -> int:
    """The line where a forward sets an attribute of ctx; its first line if it does not."""
    code = forward.__code__
    found = _definition(code, tree_of(code.co_filename))
    lines = [
        each.lineno
        for each in (ast.walk(found) if found else ())
        if isinstance(each, ast.Attribute) and each.attr == name and isinstance(each.ctx, ast.Store)
    ]
    return min(lines, default=code.co_firstlineno)


def lines_that_return(code: CodeType) -> list[int]:
    """The line where a function returns; for a lambda, its own line."""
    tree = _definition(code, tree_of(code.co_filename))
    if tree is not None:
        return sorted(
            each.value.lineno
            for each in _inside(tree)
            if isinstance(each, ast.Return) and each.value is not None
        )[:MOST]
    if code.co_name == "<lambda>":
        return [code.co_firstlineno]
    at = _returns(code)
    lines = [line for start, _, line in code.co_lines() if start in at and line]
    return sorted(set(lines))[:MOST]


def _returns(code: CodeType) -> set[int]:
    """The first lines of the `return` statements in it."""
    starts = [start for start, _, _ in code.co_lines()]
    at = [each.offset for each in dis.get_instructions(code) if each.opname.startswith("RETURN")]
    return {max(start for start in starts if start <= offset) for offset in at}


def _definition(code: CodeType, tree: ast.AST | None) -> Definition | None:
    for each in ast.walk(tree) if tree is not None else ():
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name == code.co_name:
            first = min([each.lineno, *(decorator.lineno for decorator in each.decorator_list)])
            if first == code.co_firstlineno:
                return each
    return None


def _around(tree: ast.AST, line: int) -> Definition | None:
    """The innermost function that contains a line."""
    around = (
        each
        for each in ast.walk(tree)
        if isinstance(each, Definition) and each.lineno < line <= (each.end_lineno or 0)
    )
    return max(around, key=lambda each: each.lineno, default=None)


def _inside(definition: Definition) -> list[ast.AST]:
    """The statements of a function, without those of nested functions."""
    return [each for part in definition.body for each in _own_statements(part)]


def _own_statements(part: ast.AST) -> list[ast.AST]:
    if isinstance(part, ast.FunctionDef | ast.Lambda | ast.ClassDef):
        return []
    return [
        part,
        *(each for child in ast.iter_child_nodes(part) for each in _own_statements(child)),
    ]


def _assigned(statement: ast.AST) -> set[str]:
    """The names that this assigns, except from a value stored on ctx."""
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign) and not _is_kept(statement.value):
        targets = statement.targets
    elif isinstance(statement, ast.AugAssign | ast.AnnAssign):
        targets = [statement.target]
    return {name for target in targets for name in _bound(target)}


def _is_kept(value: ast.expr) -> bool:
    while isinstance(value, ast.Attribute | ast.Subscript):
        value = value.value
    return isinstance(value, ast.Name) and value.id in {"ctx", "self"}


def _bound(target: ast.expr) -> set[str]:
    while isinstance(target, ast.Subscript | ast.Attribute | ast.Starred):
        target = target.value
    if isinstance(target, ast.Tuple | ast.List):
        return {name for each in target.elts for name in _bound(each)}
    return {target.id} if isinstance(target, ast.Name) else set()


ADDERS = frozenset(
    ("append", "appendleft", "extend", "add", "insert", "setdefault", "update", "put")
)


class Stored(NamedTuple):
    """A variable or attribute that something was stored in."""

    name: str
    attribute: bool
    held: bool  # into the object it refers to: a list

    def is_named(self, expression: ast.AST) -> bool:
        """Whether this expression is its name, or an item of it."""
        while isinstance(expression, ast.Subscript):
            expression = expression.value
        if self.attribute:
            return isinstance(expression, ast.Attribute) and expression.attr == self.name
        return isinstance(expression, ast.Name) and expression.id == self.name


def lines_that_store(stored: Stored, file: str, within: CodeType | None) -> list[int]:
    """Lines that store something in a variable or attribute of this name, likeliest first.

    `within`: the function whose variable it is. A line that computes the value from the previous
    one (`total += loss`) comes before others; one that assigns a constant is left out.
    """
    tree: ast.AST | None = tree_of(file)
    if tree is None:
        return []
    if within is not None:
        tree = _definition(within, tree) or tree
    ranked = sorted(
        (rank, each.lineno)
        for each in ast.walk(tree)
        if isinstance(each, ast.stmt) and (rank := _stores(each, stored))
    )
    lines = [line for rank, line in ranked if rank == ranked[0][0]]
    return lines[:MOST]


def lines_that_fill(line: int, file: str) -> list[int]:
    """Lines that append to a list to which a line gives another name: `self.states = fresh`."""
    tree = tree_of(file)
    inner = None if tree is None else _around(tree, line)
    given = [
        each.value.id
        for each in (ast.walk(inner) if inner is not None else ())
        if isinstance(each, ast.Assign) and each.lineno == line and isinstance(each.value, ast.Name)
    ]
    if not given or inner is None:
        return []
    stored = Stored(given[0], attribute=False, held=True)
    adds = (each for each in ast.walk(inner) if isinstance(each, ast.Expr))
    return sorted(each.lineno for each in adds if _stores(each, stored) == 1)[:MOST]


def line_that_equates(one: str, other: str, file: str) -> int:
    """The line that assigns one of two names to the other; 0: none."""
    tree = tree_of(file)
    for each in () if tree is None else ast.walk(tree):
        if isinstance(each, ast.Assign):
            value = ast.unparse(each.value)
            names = {ast.unparse(target) for target in each.targets}
            names |= {value} if len(each.targets) > 1 else set()
            if {one, other} <= names | {value}:
                return each.lineno
    return 0


def _stores(statement: ast.stmt, stored: Stored) -> int:
    """Rank of the statement as an assignment to the name, 1 is likeliest; 0: it is none."""
    if isinstance(statement, ast.Expr | ast.Assign):
        bodies = (each.body for each in ast.walk(statement) if isinstance(each, ast.Lambda))
        if any(_stores(ast.Expr(body), stored) for body in bodies):
            return 1
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        function = statement.value.func
        adds = isinstance(function, ast.Attribute) and function.attr in ADDERS
        return int(adds and stored.is_named(function.value))  # type: ignore[attr-defined]
    if isinstance(statement, ast.AugAssign):
        return int(stored.is_named(statement.target))
    if not isinstance(statement, ast.Assign):
        return 0
    empty = _is_empty(statement.value)
    for target in statement.targets:
        if isinstance(target, ast.Subscript) and stored.is_named(target.value):
            return 4 if empty else 1
        names = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        if any(stored.is_named(each) for each in names):
            if any(stored.is_named(each) for each in ast.walk(statement.value)):
                return 1
            if isinstance(statement.value, ast.Constant):
                return 0
            return 4 if empty else 3 if stored.held else 2
    return 0


EMPTY = frozenset(("list", "dict", "set", "deque", "defaultdict", "OrderedDict"))


def _is_empty(value: ast.expr) -> bool:
    """Whether it is an empty container."""
    if isinstance(value, ast.List | ast.Dict | ast.Set):
        return not (value.keys if isinstance(value, ast.Dict) else value.elts)
    called = value.func if isinstance(value, ast.Call) else None
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name in EMPTY and not any(
        isinstance(each, ast.List | ast.Tuple | ast.GeneratorExp)
        for each in value.args  # type: ignore[attr-defined]
    )


def lines_that_call(line: int, file: str) -> list[int]:
    """Lines that call the function containing a line by its name, if there are few."""
    tree = tree_of(file)
    inner = None if tree is None else _around(tree, line)
    if tree is None or inner is None:
        return []
    calls = {
        each.lineno
        for each in ast.walk(tree)
        if isinstance(each, ast.Call) and called(each) == inner.name
    }
    return sorted(calls) if len(calls) <= MOST else []


def called(call: ast.Call) -> str:
    """The last name of the called expression; "": it has none."""
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


@lru_cache(maxsize=4096)
def called_at(code: CodeType, offset: int) -> str:
    """The last name of the expression called there; "": not a call, or there is no source."""
    place = next(islice(code.co_positions(), max(offset, 0) // 2, None), None)
    if place is None or None in place:
        return ""
    first, last, start, end = (number or 0 for number in place)
    lines = [linecache.getline(code.co_filename, nr).encode() for nr in range(first, last + 1)]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    try:
        found = ast.parse(f"({b''.join(lines).decode()})", mode="eval").body
    except (SyntaxError, ValueError):
        return ""
    return called(found) if isinstance(found, ast.Call) else ""


def loaded_from(line: str) -> tuple[str, str] | None:
    """`target` and `net` of the line `target.load_state_dict(net.state_dict())`."""
    try:
        (statement,) = ast.parse(line.strip()).body
    except (SyntaxError, ValueError):
        return None
    match statement:
        case ast.Expr(
            value=ast.Call(
                func=ast.Attribute(value=to, attr="load_state_dict"),
                args=[ast.Call(func=ast.Attribute(value=of, attr="state_dict"))],
            )
        ):
            return ast.unparse(to), ast.unparse(of)
    return None


def written_to(line: str) -> Stored | None:
    """The name of the object on which a line calls a method: `shadow` in `shadow[k].add_(p)`.

    For an assignment, the name of its source: `self.slow` in `slow = self.slow[k]`. None if it is
    not a name, or if the line cannot be parsed alone.
    """
    try:
        (statement,) = ast.parse(line.strip()).body
    except (SyntaxError, ValueError):
        return None
    if isinstance(statement, ast.Assign):
        target: ast.expr | None = statement.value
        if not isinstance(target, ast.Subscript):
            return None
    else:
        target = statement.value if isinstance(statement, ast.Expr) else None
    held = False
    while isinstance(target, ast.Call | ast.Subscript):
        if isinstance(target, ast.Subscript):
            held, target = True, target.value
        else:
            target = target.func.value if isinstance(target.func, ast.Attribute) else None
    if isinstance(target, ast.Attribute):
        return Stored(target.attr, attribute=True, held=held)
    return Stored(target.id, attribute=False, held=held) if isinstance(target, ast.Name) else None
