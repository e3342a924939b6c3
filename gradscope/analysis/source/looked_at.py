"""Finds where a program takes values out of the graph only to show them: in a log, a plot, a list.

The values are followed in the source: names, attributes and containers that they are assigned to,
and what is computed from those. If that is not known, they may be part of a loss.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from gradscope.analysis.source.functions import (
    ADDERS,
    Definition,
    last_name,
)

MOST = 200
"""Largest number of lines that are reported for each file."""

FAR = 400
"""Largest number of expressions that are followed from one cut."""

CUTS = frozenset(("detach", "data", "item", "tolist", "numpy", "argmax", "argmin"))

NO_NUMBERS = frozenset((
    "print", "len", "type", "str", "repr", "isinstance", "shape", "size", "dtype", "device", "ndim",
))  # fmt: skip
"""Functions and attributes whose result does not contain the values of their arguments."""

LOGS = re.compile(
    r"log|^add_(scalar|histogram|image|text|figure)|^set_(postfix|description)|^(write|save|report)"
    r"|^(info|debug|warning|error|pprint|plot|scatter|hist|imshow|dump|track|record)$"
)
"""Names of functions, called as statements, that show or write their arguments."""

PASSING = (
    ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Tuple, ast.List, ast.Set,
    ast.Dict, ast.Starred, ast.Subscript, ast.Slice, ast.ListComp, ast.SetComp, ast.DictComp,
    ast.GeneratorExp,
)  # fmt: skip
"""Expressions whose result contains the values of their parts."""

ENDS = (ast.JoinedStr, ast.FormattedValue, ast.Expr, ast.If, ast.While, ast.Assert, ast.Delete)
"""Values end here: in a text, an unused result, or a condition."""


class LoggedCut(NamedTuple):
    """A line that takes values out of the graph, none of which can be part of a loss."""

    line: int
    by: str  # detach, item


class _Loss(Exception):  # noqa: N818 -- no error: it ends a search
    """Raised when a value that is followed may be part of a loss."""


def looked_at(trees: Sequence[ast.Module]) -> Iterator[tuple[int, LoggedCut]]:
    """The lines whose cuts reach no loss, each with the index of its file."""
    uses = _Uses(trees)
    for number, tree in enumerate(trees):
        yield from ((number, each) for each in islice(_of_file(tree, uses), MOST))


def _of_file(tree: ast.Module, uses: _Uses) -> Iterator[LoggedCut]:
    cuts: dict[tuple[int, str], list[ast.Attribute]] = defaultdict(list)
    for each in ast.walk(tree):
        if isinstance(each, ast.Attribute) and each.attr in CUTS and isinstance(each.ctx, ast.Load):
            cuts[each.end_lineno or each.lineno, each.attr].append(each)
    for (line, by), several in sorted(cuts.items()):
        if not any(map(uses.reach_a_loss, several)):
            yield LoggedCut(line, by)


class _Uses:
    """The uses of names, attributes and functions of a program."""

    def __init__(self, trees: Sequence[ast.Module]) -> None:
        self._parents = {
            child: parent
            for tree in trees
            for parent in ast.walk(tree)
            for child in ast.iter_child_nodes(parent)
        }
        self._assigned: dict[ast.AST, set[str]] = {}
        self._reads: dict[tuple[ast.AST | None, str], list[ast.AST]] = defaultdict(list)
        self._calls: dict[str, list[ast.Call]] = defaultdict(list)
        self._defined: dict[str, list[Definition]] = defaultdict(list)
        every = [each for tree in trees for each in ast.walk(tree)]
        for each in every:
            if isinstance(each, Definition):
                self._assigned[each] = _assigned(each)
                self._defined[each.name].append(each)
        for each in every:
            if isinstance(each, ast.Call):
                self._calls[last_name(each.func)].append(each)
            elif isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load):
                self._reads[self._scope(each, each.id), each.id].append(each)
            elif isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Load):
                self._reads[None, f".{each.attr}"].append(each)

    def reach_a_loss(self, cut: ast.expr) -> bool:
        """Whether the result of a cut may reach a loss."""
        waiting: list[ast.AST] = [cut]
        seen: set[ast.AST] = {cut}
        try:
            while waiting:
                for each in self._after(waiting.pop()):
                    if each not in seen:
                        seen.add(each)
                        waiting.append(each)
                if len(seen) > FAR:
                    return True
        except _Loss:
            return True
        return False

    def _after(self, each: ast.AST) -> Iterator[ast.AST]:
        """The expressions that contain the values of an expression next."""
        parent = self._parents[each]
        if isinstance(parent, ENDS):
            return
        if isinstance(parent, ast.Attribute):
            if parent.attr not in NO_NUMBERS:
                yield parent
        elif isinstance(parent, ast.Call):
            yield from self._called_with(parent, each)
        elif isinstance(parent, ast.keyword):
            yield from self._called_with(self._parents[parent], each)
        elif isinstance(parent, ast.comprehension):
            yield from self._reads_of(parent.target)
            yield self._parents[parent]
        elif isinstance(parent, ast.For):
            yield from self._reads_of(parent.target)
        elif isinstance(parent, PASSING):
            place = parent.elts.index(each) if isinstance(parent, ast.Tuple) else None  # type: ignore[arg-type]
            given = self._given(parent, place)
            yield from [parent] if given is None else given
        else:
            given = self._given(each, None)
            if given is None:
                raise _Loss
            yield from given

    def _given(self, value: ast.AST, place: int | None) -> list[ast.AST] | None:
        """The expressions that read the value of a statement; for a tuple, its item at `place`.

        None: it is not the value of a statement.
        """
        statement = self._parents[value]
        if isinstance(statement, ast.Return):
            return self._returned(statement, place)
        if not isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
            return None
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return [read for target in targets for read in self._reads_of(_part(target, place))]

    def _called_with(self, call: ast.AST, given: ast.AST) -> Iterator[ast.AST]:
        if not isinstance(call, ast.Call) or (name := last_name(call.func)).endswith("backward"):
            raise _Loss
        dropped = isinstance(self._parents[call], ast.Expr)
        known = self._defined.get(name, ())
        if given is call.func:
            yield call
            return
        if name in NO_NUMBERS or (dropped and LOGS.search(name) and not known):
            return
        for definition in known:
            yield from self._reads_of_parameter(definition, call, given)
        if name in ADDERS or name.endswith("_"):
            yield from self._reads_of(getattr(call.func, "value", call))
        elif dropped and not known:
            raise _Loss  # it may store its argument
        yield call

    def _reads_of_parameter(
        self, definition: Definition, call: ast.Call, given: ast.AST
    ) -> Iterator[ast.AST]:
        """The expressions in a function of the program that read this argument."""
        names = [each.arg for each in (*definition.args.posonlyargs, *definition.args.args)]
        del names[: names[:1] == ["self"]]
        for each in call.keywords:
            if each.value is given and each.arg:  # its value is the one that is followed
                yield from self._reads[definition, each.arg]
                return
        place = call.args.index(given) if given in call.args else len(names)
        if place >= len(names) or any(isinstance(each, ast.Starred) for each in call.args):
            raise _Loss
        yield from self._reads[definition, names[place]]

    def _returned(self, statement: ast.Return, place: int | None) -> list[ast.AST]:
        """The calls of the function that returns it, or the reads of this item of their result."""
        inner: ast.AST = statement
        while not isinstance(inner, Definition):
            inner = self._parents[inner]
        calls = self._calls.get(inner.name)
        if not calls:
            raise _Loss
        found: list[ast.AST] = []
        for call in calls:
            given = self._given(call, place)
            found += [call] if given is None else given
        return found

    def _reads_of(self, target: ast.AST) -> Iterator[ast.AST]:
        """The expressions that read a name, attribute or container with the value."""
        while isinstance(target, ast.Subscript | ast.Starred) or _is_memory(target):
            target = target.value  # type: ignore[attr-defined]
        if isinstance(target, ast.Tuple | ast.List):
            for each in target.elts:
                yield from self._reads_of(each)
        elif isinstance(target, ast.Name):
            yield from self._reads[self._scope(target, target.id), target.id]
        elif isinstance(target, ast.Attribute):
            yield from self._reads[None, f".{target.attr}"]
        else:
            raise _Loss

    def _scope(self, each: ast.AST, name: str) -> ast.AST | None:
        """The function to which a variable belongs; None: it belongs to the file."""
        inner = self._parents.get(each)
        while inner is not None:
            if name in self._assigned.get(inner, ()):
                return inner
            inner = self._parents.get(inner)
        return None


def _part(target: ast.expr, place: int | None) -> ast.expr:
    """The target that receives this item of a tuple; the whole target if that is not known."""
    parts = target.elts if isinstance(target, ast.Tuple) else []
    starred = any(isinstance(each, ast.Starred) for each in parts)
    return target if place is None or starred or place >= len(parts) else parts[place]


def _is_memory(target: ast.AST) -> bool:
    return isinstance(target, ast.Attribute) and target.attr in ("data", "grad")


def _assigned(definition: Definition) -> set[str]:
    """The local names of a function."""
    arguments = definition.args
    found = {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    found |= {each.arg for each in (arguments.vararg, arguments.kwarg) if each is not None}
    elsewhere: set[str] = set()
    waiting: list[ast.AST] = list(definition.body)
    while waiting:
        each = waiting.pop()
        if isinstance(each, ast.Global | ast.Nonlocal):
            elsewhere.update(each.names)
        elif isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            found.add(each.id)
        elif isinstance(each, Definition):
            found.add(each.name)
            continue
        waiting += ast.iter_child_nodes(each)
    return found - elsewhere
