"""Finds statements in the source that have no effect.

Something else must have been intended: `optimizer.zero_grad` without parentheses, `h.detach()`
whose result is discarded, `torch.no_grad()` that is not entered, `w = w - lr * w.grad`, which
assigns the name to another tensor and leaves the parameter unchanged.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from gradscope.analysis.identity.sites import Site
from gradscope.analysis.source.files import InSource, SourceFiles
from gradscope.analysis.source.functions import functions, is_named, last_name, own_statements
from gradscope.trace.trace import Trace

CALLED = frozenset(
    ("zero_grad", "step", "backward", "eval", "train", "detach_", "requires_grad_", "update")
)
"""Methods whose name alone, as a statement, has no effect."""

NEW = frozenset((
    "detach", "clamp", "masked_fill", "squeeze", "unsqueeze", "permute", "transpose", "contiguous",
    "reshape", "view", "softmax", "log_softmax", "sigmoid", "tanh",
))  # fmt: skip
"""Methods and functions that return a new tensor, and change no other."""

ENTERED = frozenset(("no_grad", "enable_grad", "inference_mode", "autocast"))
"""Contexts of `torch`, which have no effect unless they are entered."""

SETTINGS = frozenset(("lr", "weight_decay", "momentum", "betas", "eps", "alpha", "nesterov"))
OPTIMIZER = re.compile(r"(^|_)(opt|optim|optimi[sz]er|adamw?|sgd)(_|\d|$)")
"""Names of objects with settings, and of optimizers."""

OF_MODULES = frozenset(("parameters", "named_parameters", "buffers", "named_buffers"))


REFUSED = ("raises", "assertRaises", "warns", "assertWarns", "suppress")
"""Contexts of statements that are there for their error or warning."""

ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.MatMult)


class Idle(NamedTuple):
    """A statement that has no effect, or not the expected one."""

    line: int
    what: str  # not-called, dropped, computed, not-entered, rebound, loop-variable, defaults
    name: str  # of the method, variable or setting; computed: of the function that ends with it


def idle_statements(tree: ast.Module) -> Iterator[Idle]:
    """The statements without effect in a file that uses PyTorch."""
    if _is_about_torch(tree):
        for function, body in functions(tree):
            yield from _idle(body, function)


def named_only(trace: Trace, method: str) -> Site | None:
    """The first line that names a method without parentheses and so does not call it."""
    every = trace.once(SourceFiles).each(idle_statements)
    named = (e.site for e in every if e.found.what == "not-called" and e.found.name == method)
    return next(named, None)


def rebound(trace: Trace) -> list[InSource[Idle]]:
    """Updates that assign a parameter's name to a new tensor: `w = w - lr * w.grad`."""
    every = trace.once(SourceFiles).each(idle_statements)
    return [each for each in every if each.found.what == "rebound"]


class OwnMethod(NamedTuple):
    """A method of a class of the program. If PyTorch has its name, it may do something else."""

    line: int
    name: str


def own_methods(tree: ast.Module) -> Iterator[OwnMethod]:
    """The methods that the file defines."""
    for each in ast.walk(tree):
        if isinstance(each, ast.ClassDef):
            methods = [part for part in each.body if isinstance(part, ast.FunctionDef)]
            yield from (OwnMethod(part.lineno, part.name) for part in methods)


def _is_about_torch(tree: ast.Module) -> bool:
    if any(is_named(each, "torch") for each in ast.walk(tree)):
        return True
    for each in tree.body:
        names = [alias.name for alias in each.names] if isinstance(each, ast.Import) else []
        names += [each.module or ""] if isinstance(each, ast.ImportFrom) else []
        if any(name.partition(".")[0] == "torch" for name in names):
            return True
    return False


def _idle(body: list[ast.stmt], function: str) -> Iterator[Idle]:
    every = list(own_statements(body))
    tried = [part for each in every if isinstance(each, ast.Try | ast.With) for part in each.body]
    refused = [
        part
        for each in every
        if isinstance(each, ast.With) and any(map(_expects_an_error, each.items))
        for part in each.body
    ]
    for each in every:
        if isinstance(each, ast.Expr) and each not in refused:
            yield from _expression(each)
            if isinstance(each.value, ast.BinOp) and each not in tried:
                yield from _computed(each, function, body)
        elif isinstance(each, ast.Assign):
            yield from _rebound(each, every)
            yield from _defaults(each)
        elif isinstance(each, ast.For):
            yield from _loop_variable(each)


def _expects_an_error(item: ast.withitem) -> bool:
    """`with pytest.raises(…)`, `with self.assertRaises(…)`, `with suppress(…)`."""
    call = item.context_expr
    return isinstance(call, ast.Call) and last_name(call.func).startswith(REFUSED)


def _expression(statement: ast.Expr) -> Iterator[Idle]:
    value, line = statement.value, statement.lineno
    if isinstance(value, ast.Attribute):
        if value.attr in CALLED:
            yield Idle(line, "not-called", value.attr)
    elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        name, owner = value.func.attr, value.func.value
        if name in ENTERED and is_named(owner, "torch"):
            yield Idle(line, "not-entered", name)
        elif name in NEW and not _writes_or_is_an_array(value):
            yield Idle(line, "dropped", name)


def _writes_or_is_an_array(call: ast.Call) -> bool:
    """Whether it has `out=` or `inplace=`, or is called on an array: `x.numpy().reshape(2, 3)`."""
    writes = any(each.arg in ("out", "inplace") for each in call.keywords)
    return writes or any(last_name(each) == "numpy" for each in ast.walk(call.func))


def _computed(statement: ast.Expr, function: str, body: list[ast.stmt]) -> Iterator[Idle]:
    """`grad * 0.1`, whose result is unused: as the last statement, a `return` is missing."""
    operations = [each.op for each in ast.walk(statement) if isinstance(each, ast.BinOp)]
    named = any(isinstance(each, ast.Name) for each in ast.walk(statement.value))
    if named and all(isinstance(each, ARITHMETIC) for each in operations):
        last = statement is body[-1] and function != "<module>"
        yield Idle(statement.lineno, "computed", function.rpartition(".")[2] if last else "")


def _defaults(statement: ast.Assign) -> Iterator[Idle]:
    """`optimizer.defaults["lr"] = x`, which existing groups do not read."""
    for target in statement.targets:
        if not isinstance(target, ast.Subscript) or not isinstance(target.slice, ast.Constant):
            continue
        held, key = target.value, target.slice.value
        if not isinstance(held, ast.Attribute) or held.attr != "defaults" or key not in SETTINGS:
            continue
        if OPTIMIZER.search(last_name(held.value)):
            yield Idle(statement.lineno, "defaults", key)


def _rebound(statement: ast.Assign, every: list[ast.stmt]) -> Iterator[Idle]:
    """`w = w - lr * w.grad`, if the name does not become a leaf again."""
    if len(statement.targets) != 1 or not isinstance(statement.targets[0], ast.Name):
        return
    name = statement.targets[0].id
    takes = {
        each.attr
        for each in ast.walk(statement.value)
        if isinstance(each, ast.Attribute) and is_named(each.value, name)
    }
    plainly = isinstance(statement.value, ast.BinOp)
    if "grad" in takes and plainly and not any(_makes_a_leaf(each, name) for each in every):
        yield Idle(statement.lineno, "rebound", name)


def _makes_a_leaf(statement: ast.stmt, name: str) -> bool:
    """Whether a statement sets `requires_grad` for this name, or assigns it a leaf."""
    if not isinstance(statement, ast.Assign | ast.Expr):
        return False
    asks = any(
        isinstance(each, ast.Attribute) and each.attr.startswith("requires_grad")
        for each in ast.walk(statement)
    )
    return asks and any(is_named(each, name) for each in ast.walk(statement))


def _loop_variable(loop: ast.For) -> Iterator[Idle]:
    """Assignments to the variable of a loop over parameters that are not read."""
    over = (each.attr for each in ast.walk(loop.iter) if isinstance(each, ast.Attribute))
    if not OF_MODULES & set(over):
        return
    names = {each.id for each in ast.walk(loop.target) if isinstance(each, ast.Name)}
    inside = [each for part in loop.body for each in ast.walk(part)]
    reads = [
        (each.id, each.lineno)
        for each in inside
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
    ]
    for each in own_statements(loop.body):
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            name, end = each.targets[0].id, each.end_lineno or each.lineno
            later = any(read == name and line > end for read, line in reads)
            if name in names and not later and not isinstance(each.value, ast.Constant):
                takes_grad = any(
                    isinstance(part, ast.Attribute)
                    and part.attr == "grad"
                    and is_named(part.value, name)
                    for part in ast.walk(each.value)
                )
                if not takes_grad:  # reported as rebound
                    yield Idle(each.lineno, "loop-variable", name)
