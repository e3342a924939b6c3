"""One sample of PyTorch's database on both engines: result, graph, gradients of two orders."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gradscope import runtime
from tests.runtime import oracle
from tests.runtime.core.ops.op_db import database

UNSET = ("empty", "new_empty", "resize")
"""What these give is not defined but for its shape."""
TOLERANCES = {
    "float64": (1e-7, 1e-8), "complex128": (1e-7, 1e-8), "float32": (1e-4, 2e-5),
    "complex64": (1e-4, 2e-5), "float16": (1e-2, 4e-3), "bfloat16": (4e-2, 2e-2),
}  # fmt: skip


OPEN = {
    "mode": ("dim", "keepdim"), "sort": ("dim",), "argsort": ("dim",), "topk": ("k", "dim"),
    "kthvalue": ("k", "dim", "keepdim"),
}  # fmt: skip
"""What says where elements come from, of which any may be taken if several are equal."""


class Differs(Exception):
    """What is not the same, and where."""

    def __init__(self, stage: str, text: str) -> None:
        super().__init__(f"{stage}: {text}")
        self.stage = stage


class NotCarriedError(Exception):
    """A sample sees memory beside its tensors, of which their copies have none."""


def compare(found: Any, expected: Any, stage: str) -> None:
    """Raise where two results are not the same."""
    if oracle.is_tensor(expected):
        if not oracle.is_tensor(found):
            raise Differs(stage, f"{type(found).__name__} in place of a tensor")
        _compare_tensors(found, expected, stage)
    elif isinstance(expected, list | tuple):
        if not isinstance(found, list | tuple) or len(found) != len(expected):
            raise Differs(stage, f"{type(found).__name__} in place of {len(expected)} results")
        for mine, known in zip(found, expected, strict=True):
            compare(mine, known, stage)
    elif isinstance(expected, float | complex):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    elif str(found) != str(expected):
        raise Differs(stage, f"{found!r} in place of {expected!r}")


def _compare_tensors(found: Any, expected: Any, stage: str) -> None:
    for what in ("dtype", "shape"):
        mine, known = str(getattr(found, what)), str(getattr(expected, what))
        if mine != known:
            raise Differs(stage, f"{what} {mine} in place of {known}")
    relative, absolute = TOLERANCES.get(str(expected.dtype).removeprefix("torch."), (0.0, 0.0))
    mine, known = oracle.array_of(found), oracle.array_of(expected)
    if not known.size or np.array_equal(mine, known, equal_nan=known.dtype.kind in "fc"):
        return
    with np.errstate(all="ignore"):
        same = np.isclose(mine, known, relative, absolute, equal_nan=True)
    if not same.all():
        place = tuple(int(i) for i in np.argwhere(~np.atleast_1d(same))[0])
        wrong = int((~same).sum())
        values = f"{np.atleast_1d(mine)[place]} in place of {np.atleast_1d(known)[place]}"
        raise Differs(stage, f"{wrong} of {known.size} values, at {place} {values}")


@dataclass(frozen=True)
class Case:
    """One sample on one engine."""

    call: Callable[..., Any]
    input: Any
    args: Any
    kwargs: Any
    process: Callable[[Any], Any]
    module: Any

    def run(self) -> Any:
        self.module.manual_seed(1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.call(self.input, *self.args, **self.kwargs)

    def wanted(self) -> list[Any]:
        given = (self.input, self.args, self.kwargs)
        return [t for t in database.tensors(given) if t.requires_grad]


def cases(info: Any, sample: Any) -> tuple[Case, Case]:
    import torch

    def made(carry: Callable[[Any], Any], call: Any, module: Any) -> Case:
        process = sample.output_process_fn_grad
        if module is runtime:
            process = database.rebound(process)
        given = (carry(sample.input), carry(sample.args), carry(sample.kwargs))
        return Case(call, *given, process, module)

    return (
        made(database.ours, database.our_function(info), runtime),
        made(database.theirs, info.op, torch),
    )


def check(info: Any, sample: Any, *, second: bool) -> str | None:
    """Raise where a sample gives something else; the node's name otherwise."""
    mine, known = cases(info, sample)
    try:
        expected = known.run()
    except RuntimeError as error:
        if "out of bounds for storage" in str(error):
            raise NotCarriedError from error
        raise
    return check_run(info, mine, known, expected, second=second)


def check_run(info: Any, mine: Case, known: Case, expected: Any, *, second: bool) -> str | None:
    """Run a case on our engine and compare it with what PyTorch's gave."""
    try:
        found = mine.run()
        if not info.name.startswith(UNSET):
            found, expected = mine.process(found), known.process(expected)
            found, expected = settled(info, mine, found), settled(info, known, expected)
            compare(found, expected, "forward")
        else:
            compare([o.shape for o in database.tensors(found)],
                    [o.shape for o in database.tensors(expected)], "forward")  # fmt: skip
    except Differs:
        raise
    except Exception as error:
        raise Differs("forward", told(error)) from error
    outputs = _differentiable(expected)
    if not outputs or not known.wanted():
        return None
    _check_graph(_differentiable(found), outputs)
    _check_gradients(mine, known, found, expected, second)
    return oracle.name_of(outputs[0].grad_fn) if outputs[0].grad_fn is not None else None


def settled(info: Any, case: Case, result: Any) -> Any:
    """A result without what PyTorch leaves open: which of equal elements stands where."""
    if info.name not in OPEN or not case.input.dim() or case.kwargs.get("stable"):
        return result
    names = OPEN[info.name]
    options = dict(zip(names, case.args, strict=False)) | dict(case.kwargs)
    dim = options.get("dim", -1)
    indices = result[1] if isinstance(result, list | tuple) else result
    if not options.get("keepdim", "keepdim" not in names):
        indices = indices.unsqueeze(dim)
    chosen = case.input.detach().gather(dim, indices)
    return (result[0], chosen) if isinstance(result, list | tuple) else chosen


def told(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0][:150]}"


def _differentiable(result: Any) -> list[Any]:
    return [t for t in database.tensors([result]) if t.requires_grad]


def _check_graph(found: list[Any], expected: list[Any]) -> None:
    mine, known = oracle.graph_of(found), oracle.graph_of(expected)
    if mine != known:
        names = [[name for name, _ in graph] for graph in (mine, known)]
        if names[0][:1] != names[1][:1]:
            raise Differs("node", f"{names[0][:1]} in place of {names[1][:1]}")
        raise Differs("graph", f"{names[0][:8]} in place of {names[1][:8]}")


def _check_gradients(mine: Case, known: Case, found: Any, expected: Any, second: bool) -> None:
    try:
        known_first, known_second = _gradients(known, expected, second)
    except RuntimeError as error:
        if "don't support automatic differentiation" not in str(error):
            raise
        known_first, known_second = _gradients(known, expected, second=False)
    try:
        first, again = _gradients(mine, found, second and known_second is not None)
        compare(first, known_first, "gradient")
        if known_second is not None:
            compare(again, known_second, "second gradient")
    except Differs:
        raise
    except Exception as error:
        raise Differs("gradient", told(error)) from error


def _gradients(case: Case, result: Any, second: bool) -> tuple[list[Any], list[Any] | None]:
    """The gradients of all inputs, and the gradients of those; None where there are none."""
    wanted = case.wanted()
    outputs = _differentiable(result)
    rng = np.random.default_rng(5)
    seeds = [_seed(case.module, rng, o) for o in outputs]
    grad = partial(case.module.autograd.grad, allow_unused=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not second:
            return list(grad(outputs, wanted, seeds)), None
        for seed in seeds:
            seed.requires_grad_(True)
        first = list(grad(outputs, wanted, seeds, create_graph=True))
        again = [g for g in first if g is not None and g.requires_grad]
        if not again:
            return first, []
        weights = [_seed(case.module, rng, g) for g in again]
        if case.module is runtime:
            return first, list(grad(again, [*wanted, *seeds], weights))
        with contextlib.suppress(RuntimeError):
            return first, list(grad(again, [*wanted, *seeds], weights))
        return first, None


def _seed(module: Any, rng: Any, output: Any) -> Any:
    array = oracle.array_of(output)
    values = rng.uniform(-1, 1, array.shape)
    if array.dtype.kind == "c":
        values = values + 1j * rng.uniform(-1, 1, array.shape)
    values = np.asarray(values).astype(array.dtype)
    return runtime.Tensor.from_array(values) if module is runtime else module.from_numpy(values)
