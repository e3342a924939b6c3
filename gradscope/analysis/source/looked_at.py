"""Where a program takes numbers out of the graph only to look at them: for a log, a plot, a list.

Followed is, in the source, what is made of them: the names, attributes and containers that they are
given to, and what is computed of those. Wherever that is not known, they may come into a loss.
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
"""Maximum number of lines noted for each file."""

FAR = 400
"""Maximum number of places that are followed from one cut."""

CUTS = frozenset(("detach", "data", "item", "tolist", "numpy", "argmax", "argmin"))

NO_NUMBERS = frozenset((
    "print", "len", "type", "str", "repr", "isinstance", "shape", "size", "dtype", "device", "ndim",
))  # fmt: skip
"""Functions and attributes that give none of the numbers they are given."""

LOGS = re.compile(
    r"log|^add_(scalar|histogram|image|text|figure)|^set_(postfix|description)|^(write|save|report)"
    r"|^(info|debug|warning|error|pprint|plot|scatter|hist|imshow|dump|track|record)$"
)
"""Names of functions, called for what they do, that show or write what they are given."""

PASSING = (
    ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Tuple, ast.List, ast.Set,
    ast.Dict, ast.Starred, ast.Subscript, ast.Slice, ast.ListComp, ast.SetComp, ast.DictComp,
    ast.GeneratorExp,
)  # fmt: skip
"""What is made of an expression by these has its numbers in it."""

ENDS = (ast.JoinedStr, ast.FormattedValue, ast.Expr, ast.If, ast.While, ast.Assert, ast.Delete)
"""Values end here: in a text, an unused result, or a condition."""


class LoggedCut(NamedTuple):
    """A line that takes numbers out of the graph, none of which can come into a loss."""

    line: int
    by: str  # detach, item


class _Loss(Exception):  # noqa: N818 -- no error: it ends a search
    """What was followed may come into a loss."""


def looked_at(trees: Sequence[ast.Module]) -> Iterator[tuple[int, LoggedCut]]:
    """Such lines in the files of a program, each with the number of its file."""
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
    """What is done with names, attributes and functions of a program."""

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
        """Where the numbers of an expression stand next."""
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
        """Where a statement's value is read; of a tuple, what is in this place.

        None: it is no statement's.
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
            raise _Loss  # who knows what it keeps
        yield call

    def _reads_of_parameter(
        self, definition: Definition, call: ast.Call, given: ast.AST
    ) -> Iterator[ast.AST]:
        """Where a function of the program's reads what it is given."""
        names = [each.arg for each in (*definition.args.posonlyargs, *definition.args.args)]
        del names[: names[:1] == ["self"]]
        for each in call.keywords:
            if each.value is given and each.arg:  # its value is what was followed
                yield from self._reads[definition, each.arg]
                return
        place = call.args.index(given) if given in call.args else len(names)
        if place >= len(names) or any(isinstance(each, ast.Starred) for each in call.args):
            raise _Loss
        yield from self._reads[definition, names[place]]

    def _returned(self, statement: ast.Return, place: int | None) -> list[ast.AST]:
        """What calls the function that returns it, or reads that part of what it returns."""
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
        """Where a program reads what it has given a value, or put a value into."""
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
        """The function whose variable it is; None: it is a file's."""
        inner = self._parents.get(each)
        while inner is not None:
            if name in self._assigned.get(inner, ()):
                return inner
            inner = self._parents.get(inner)
        return None


def _part(target: ast.expr, place: int | None) -> ast.expr:
    """What is given the value in this place of a tuple; all of it, where that is not known."""
    parts = target.elts if isinstance(target, ast.Tuple) else []
    starred = any(isinstance(each, ast.Starred) for each in parts)
    return target if place is None or starred or place >= len(parts) else parts[place]


def _is_memory(target: ast.AST) -> bool:
    return isinstance(target, ast.Attribute) and target.attr in ("data", "grad")


def _assigned(definition: Definition) -> set[str]:
    """The names that are a function's own."""
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
