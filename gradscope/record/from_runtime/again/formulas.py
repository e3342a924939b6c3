"""The gradients of a node, computed by the runtime's formula for nodes of that name.

Nodes of PyTorch keep their values under the names that the rows of the runtime use.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

import gradscope.runtime as torch
from gradscope.runtime.core.graph.run_node import expandable, sum_to_shape
from gradscope.runtime.core.rows.operation import REGISTRY, Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gradscope.watch.in_place.node_runs import CopiedRun, NodeArray

    Array = np.ndarray[Any, Any]
    Convert = Callable[[NodeArray], Array]

HALVES: dict[str, Any] = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
OWN: dict[str, Any] = {**HALVES, "float32": np.float32, "float64": np.float64}

ENDINGS = {"shape": "_sym_sizes", "strides": "_sym_strides", "numel": "_sym_numel"}
"""Endings of the names under which PyTorch keeps facts about an input."""


FAILURES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What a formula raises for values that it does not take."""


class NoFormula(Exception):  # noqa: N818 -- it is an answer
    """There is no formula for this node, or it needs something that the node does not keep."""


def formulas_of(run: CopiedRun) -> list[NodeFormula]:
    """The formulas for a node of this name. Several operations may have nodes of one name."""
    return [NodeFormula(op, run) for op in _by_name().get(run.kind, ()) if _fits(op, run)]


def _fits(op: Operation, run: CopiedRun) -> bool:
    """Whether the node keeps everything that the formulas of an operation need."""
    if not _is_of_many(op) and len(op.plan.differentiable) != len(run.returned):
        return False
    return all(slot.kind == "constant" or _name_in(run, op, slot) for slot in op.plan.slots)


def _is_of_many(op: Operation) -> bool:
    """Whether it takes a sequence of tensors."""
    return any(p.many for p in op.plan.tensors)


def _name_in(run: CopiedRun, op: Operation, slot: Any) -> str:
    """The name under which the node keeps the value of a slot; "": it does not."""
    name = slot.source + ENDINGS[slot.kind] if slot.kind in ENDINGS else slot.name
    if name in run.saved:
        return str(name)
    if f"{name}_opt" in run.saved:
        return f"{name}_opt"
    if slot.kind == "shape" and _is_of_many(op) and None not in run.returned:
        return SHAPES
    return ""


SHAPES = "shapes of the gradients"
"""Stands for the shapes of a sequence of tensors, which PyTorch does not show."""


class NodeFormula:
    """The gradients of one run of a node, from its values in any precision."""

    def __init__(self, op: Operation, run: CopiedRun) -> None:
        self._op = op
        self._run = run
        self._needs = tuple(each is not None for each in run.returned)

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each input that may get a gradient."""
        return self._op.plan.differentiable

    @property
    def many(self) -> int:
        """The number of gradients, with those that are not needed."""
        return len(self._run.returned)

    def for_multiple(self, times: float) -> NodeFormula:
        """The formula for a run that receives this multiple of its gradients."""
        grads = [
            None if each is None else each._replace(values=each.values.astype(np.float64) * times)
            for each in self._run.grads
        ]
        return NodeFormula(self._op, replace(self._run, grads=grads))

    def gradients(self, convert: Convert) -> list[Array | None]:
        """The gradients, of arrays that `convert` makes; None where none is needed.

        Raises NoFormula if the formula cannot take these values.
        """
        run = self._run
        try:
            with np.errstate(all="ignore"):
                made = self._made(self._op, convert)
        except FAILURES as error:
            raise NoFormula from error
        if len(made) != len(run.returned):
            raise NoFormula
        return [
            None if returned is None else _fitted(each, returned.values.shape)
            for each, returned in zip(made, run.returned, strict=True)
        ]

    def _made(self, op: Operation, convert: Convert) -> Sequence[Any]:
        grads = [None if each is None else convert(each) for each in self._run.grads]
        kind = next((each.dtype for each in grads if each is not None), None)
        if not op.plan.gaps:
            shapes = self._run.shapes
            grads = [
                np.zeros(shapes[place], kind) if each is None else each
                for place, each in enumerate(grads)
            ]
        grad = grads[0] if op.plan.outputs == 1 else grads
        words: dict[str, Any] = {"grad": grad, "grads": grad, "needs": self._needs}
        for slot in op.plan.slots:
            if slot.kind != "constant":
                words[slot.name] = self._word(slot, convert)
        if op.joint or _is_of_many(op):
            formula = op.formulas[0]
            made = formula(*(words[word] for word in formula.words))
            return list(made) if isinstance(made, list | tuple) else [made]
        return [
            formula(*(words[word] for word in formula.words)) if needs else None
            for formula, needs in zip(op.formulas, self._needs, strict=True)
        ]

    def _word(self, slot: Any, convert: Convert) -> Any:
        name = _name_in(self._run, self._op, slot)
        if name == SHAPES:
            return [each.values.shape for each in self._run.returned if each is not None]
        value = self._run.saved[name]
        if slot.kind == "held":
            return _held(value, convert)
        if slot.kind in ("input", "output"):
            return _arrays(value, convert)
        return tuple(value) if isinstance(value, list) else value


def _arrays(value: Any, convert: Convert) -> Any:
    if isinstance(value, list):
        return [_arrays(each, convert) for each in value]
    return convert(value) if hasattr(value, "values") else value


def _held(value: Any, convert: Convert) -> Any:
    """Tensors that a formula takes as such, like indices."""
    if isinstance(value, list):
        return tuple(_held(each, convert) for each in value)
    return torch.from_numpy(convert(value)) if hasattr(value, "values") else value


def _fitted(made: Any, shape: tuple[int, ...]) -> Array:
    """A gradient in the shape that the engine gives it."""
    if made is None:
        raise NoFormula
    array = np.asarray(getattr(made, "_array", made))
    if not expandable(shape, array.shape):
        raise NoFormula
    return array if array.shape == shape else np.asarray(sum_to_shape(array, shape))


@cache
def _by_name() -> dict[str, list[Operation]]:
    made: defaultdict[str, list[Operation]] = defaultdict(list)
    for op in REGISTRY.values():
        if op.node_name and op.inplace_of is None:
            made[op.node_name].append(op)
    for ops in made.values():  # first those that read an option, which others set
        ops.sort(key=lambda op: any(slot.kind == "constant" for slot in op.plan.slots))
    return made
