"""The mode in which modules ran: training or eval, with gradients or without."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gradscope.analysis.lookups import grouped
from gradscope.analysis.program.acts import Acts, Done
from gradscope.analysis.source.functions import parsed
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, Frame, Module, Op, RanAct, Stack, TrainAct
from gradscope.trace.trace import Trace

TWO_WAYS = re.compile(r"Drop|BatchNorm")
"""Types of modules that behave differently in training."""

DROPOUT = re.compile(r"(?<![\w.])(?!self\.)(?P<name>[\w.]*dropout\w*)\(")


@dataclass(frozen=True, slots=True)
class CalledDropout:
    """A line that calls dropout as a function, in the forward of a module."""

    module: int
    stack: int
    training: str  # the argument `training` in the line: "", "True", or another expression


class Modes:
    """Which modules depend on the mode, and in which mode they ran."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.acts = trace.once(Acts)

    @cached_property
    def modules(self) -> Mapping[int, Module]:
        return {module.id: module for module in self.trace.rows(Module)}

    @cached_property
    def _children(self) -> Mapping[int, list[int]]:
        by_parent = grouped(self.modules.values(), lambda module: module.parent)
        return {parent: [each.id for each in inside] for parent, inside in by_parent.items()}

    @property
    def outermost(self) -> list[int]:
        """Modules that were not called inside another one."""
        return self._children.get(NONE, [])

    def inside(self, module: int) -> frozenset[int]:
        """A module and all modules below it; for NONE, all modules."""
        found, waiting = {module}, [module]
        while waiting:
            for child in self._children.get(waiting.pop(), ()):
                if child not in found:
                    found.add(child)
                    waiting.append(child)
        return frozenset(found - {NONE})

    def root(self, module: int) -> int:
        """The outermost module that contains it and was called as a model."""
        seen = {module}
        while module in self.modules and self.modules[module].path:
            parent = self.modules[module].parent
            if parent in seen or parent == NONE:
                break
            seen.add(parent)
            module = parent
        return module

    def parameters(self, modules: frozenset[int]) -> frozenset[int]:
        return frozenset(
            tensor for id in modules if id in self.modules for tensor in self.modules[id].parameters
        )

    @cached_property
    def two_ways(self) -> frozenset[int]:
        """Modules that behave differently in training, because of their type or of calls."""
        ops = self.trace.table(Op)
        names = distinct(ops["name"]).tolist()
        passes_on = [name for name in names if self.trace.text(name) == "dropout"]
        works = (ops["node"] != NONE) | ~np.isin(ops["name"], passes_on)
        ran = set(distinct(ops["module"][works]).tolist())
        of_type = {
            id
            for id, module in self.modules.items()
            if TWO_WAYS.search(module.type)
            and ("Norm" in module.type or id in ran)  # Dropout(0) returns its input
        }
        return frozenset(of_type | {call.module for call in self.dropouts})

    @cached_property
    def ran(self) -> Mapping[tuple[int, bool, bool], Done[RanAct]]:
        """By module, whether gradients were on, and whether in training mode: the first run."""
        found: dict[tuple[int, bool, bool], Done[RanAct]] = {}
        for act in self.acts.of(RanAct):
            key = act.module, act.facts.grad, act.facts.training
            found.setdefault(key, act)
        return found

    @cached_property
    def dropouts(self) -> tuple[CalledDropout, ...]:
        """Calls of dropout as a function, by module and line."""
        ops = self.trace.table(Op)
        suspicious = np.isin(ops["stack"], np.array(list(self._lines_with_dropout), np.int64))
        modules, lines = ops["module"][suspicious].tolist(), ops["stack"][suspicious].tolist()
        stacks = self.trace.table(Stack)
        frames = dict(zip(stacks["id"].tolist(), stacks["frame"].tolist(), strict=True))
        types = {id: module.type for id, module in self.modules.items()}
        calls = [each for each in zip(modules, lines, strict=True) if each[0] in types]
        of_modules = {frames[stack] for module, stack in calls if "Drop" in types[module]}
        return tuple(
            CalledDropout(module, stack, self._lines_with_dropout[stack])
            for module, stack in dict.fromkeys(calls)
            if frames[stack] not in of_modules  # there, `dropout` is a module
        )

    @cached_property
    def _lines_with_dropout(self) -> Mapping[int, str]:
        """Stacks whose innermost line calls dropout as a function, with its argument `training`."""
        frames, stacks = self.trace.table(Frame), self.trace.table(Stack)
        texts = {
            text: training
            for text in distinct(frames["text"]).tolist()
            if (training := _training_said(self.trace.text(text))) is not None
        }
        known = dict(zip(frames["id"].tolist(), frames["text"].tolist(), strict=True))
        pairs = zip(stacks["id"].tolist(), stacks["frame"].tolist(), strict=True)
        return {id: texts[known[frame]] for id, frame in pairs if known.get(frame) in texts}

    def switches(self) -> Iterator[Done[TrainAct]]:
        """Each call of train() and eval()."""
        yield from self.acts.of(TrainAct)


def _training_said(text: str) -> str | None:
    """The argument `training` in a line that calls dropout as a function; None: it does not."""
    if "dropout" not in text or not DROPOUT.search(text):
        return None
    for line in (text.strip(), text.strip().rstrip(":") + ": pass"):
        tree = parsed(line)
        for call in ast.walk(tree) if tree is not None else ():
            if isinstance(call, ast.Call) and _is_dropout(call.func):
                return _argument(call)
    return None


def _is_dropout(function: ast.expr) -> bool:
    match function:
        case ast.Name(id=name):
            return "dropout" in name
        case ast.Attribute(value=ast.Name(id=of), attr=name):
            return "dropout" in name and of != "self"
        case ast.Attribute(value=ast.Attribute(attr="functional"), attr=name):
            return "dropout" in name
    return False


def _argument(call: ast.Call) -> str:
    for keyword in call.keywords:
        if keyword.arg == "training":
            return ast.unparse(keyword.value)
        if keyword.arg is None:
            return "**"
    if len(call.args) > 2:
        return ast.unparse(call.args[2])
    return ""
