"""Runs one call on gradscope's runtime and on PyTorch, and compares all that can be seen of it.

For whoever adds an operation: put samples of it into `tests/runtime/ops/samples/<family>.py`,

    samples("mul", Sample(lambda torch, x, y: torch.mul(x, y), (3, 4), (4,)))
    samples("mul_", Sample(lambda torch, x, y: x.clone().mul_(y), (3, 4), (4,)))
    wrong("mul", Wrong(lambda torch, x, y: torch.mul(x, y), (3, 4), (5,)))

and test_conformance.py does the rest: values, dtypes, strides' independence, the whole backward
graph (node names, edges, saved slots), gradients, second gradients, other dtypes, errors. The call
gets the module (PyTorch or ours) and one tensor per input. An input is a shape, or one of

    Real(shape, low, high)   numbers; cast to the dtype under test, and given a gradient
    Fixed(array)             exactly this array, never cast, without gradient (an index, a mask)

Every registered operation that users can see, and every function built of them, must have a sample
under its name (`sum.dim`, or `sum` for the public function): a test names those that have none.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import ml_dtypes
import numpy as np

DTYPES = ("float32", "float16", "bfloat16", "int64", "int32", "uint8", "bool", "complex128")


@dataclass(frozen=True)
class Real:
    """Numbers between two bounds, with a gradient where the dtype has one."""

    shape: tuple[int, ...]
    low: float = -2.0
    high: float = 2.0


@dataclass(frozen=True)
class Fixed:
    """This very array: an index, a mask, a target."""

    value: Any

    @property
    def array(self) -> np.ndarray[Any, Any]:
        return np.asarray(self.value)


Input = Real | Fixed | tuple[int, ...]


@dataclass(frozen=True)
class Sample:
    """One call to compare."""

    call: Callable[..., Any]
    inputs: tuple[Input, ...]
    dtypes: tuple[str, ...]
    tolerance: float
    order: int
    grad: bool
    strided: bool
    family: str = ""

    def __init__(
        self,
        call: Callable[..., Any],
        *inputs: Input,
        dtypes: Sequence[str] = DTYPES,
        tolerance: float = 1.0,
        order: int = 2,
        grad: bool = True,
        strided: bool = True,
    ) -> None:
        """Compare `order` derivatives; `grad=False` for calls that have none.

        `dtypes` are tried besides float64. `tolerance` multiplies the usual ones.
        `strided=False` where the result depends on how the inputs lie in memory.
        """
        for name, value in (
            ("call", call),
            ("inputs", tuple(Real(i) if isinstance(i, tuple) else i for i in inputs)),
            ("dtypes", tuple(dtypes)),
            ("tolerance", tolerance),
            ("order", order if grad else 0),
            ("grad", grad),
            ("strided", strided),
        ):
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class Wrong:
    """A call that both engines refuse with the same words."""

    call: Callable[..., Any]
    inputs: tuple[Input, ...]
    dtype: str = "float64"
    family: str = ""

    def __init__(self, call: Callable[..., Any], *inputs: Input, dtype: str = "float64") -> None:
        object.__setattr__(self, "call", call)
        object.__setattr__(
            self, "inputs", tuple(Real(i) if isinstance(i, tuple) else i for i in inputs)
        )
        object.__setattr__(self, "dtype", dtype)


SAMPLES: dict[str, list[Sample]] = {}
WRONG: dict[str, list[Wrong]] = {}


def samples(name: str, *given: Sample) -> None:
    """File samples under the name of an operation or of a function."""
    SAMPLES.setdefault(name, []).extend(given)
    say_family(given, sys._getframe(1))


def wrong(name: str, *given: Wrong) -> None:
    """File calls that must fail under the name of an operation or of a function."""
    WRONG.setdefault(name, []).extend(given)
    say_family(given, sys._getframe(1))


def say_family(given: Sequence[Sample | Wrong], caller: FrameType) -> None:
    """The family of samples is the file that they are written in."""
    for each in given:
        object.__setattr__(each, "family", caller.f_globals["__name__"].rpartition(".")[2])


# -- the two engines ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Engine:
    """PyTorch or gradscope's runtime, and how its tensors are made from arrays and read back."""

    module: Any
    wrap: Callable[[np.ndarray[Any, Any]], Any]

    def run(self, sample: Sample | Wrong, arrays: Sequence[Any], wanted: Sequence[bool]) -> Run:
        tensors = [self.wrap(array) for array in arrays]
        for tensor, needs in zip(tensors, wanted, strict=True):
            if needs:
                tensor.requires_grad_(True)
        result = sample.call(self.module, *tensors)
        return Run(self, tensors, result, list(flat(result)))


@dataclass(frozen=True, repr=False)
class Run:
    """A call that has been made."""

    engine: Engine
    inputs: list[Any]
    result: Any
    outputs: list[Any] = field(default_factory=list)


def theirs() -> Engine:
    import torch

    def wrap(array: np.ndarray[Any, Any]) -> Any:
        if array.dtype == ml_dtypes.bfloat16:
            return wrap(array.astype(np.float32)).to(torch.bfloat16)
        return torch.from_numpy(array)

    return Engine(torch, wrap)


def ours() -> Engine:
    from gradscope import runtime

    return Engine(runtime, runtime.Tensor.from_array)


def flat(result: Any) -> Iterator[Any]:
    """The tensors of a result, in order, and whatever else it holds."""
    if isinstance(result, tuple | list):
        for item in result:
            yield from flat(item)
    else:
        yield result


def is_tensor(value: Any) -> bool:
    return hasattr(value, "requires_grad") and hasattr(value, "dtype")


def array_of(tensor: Any) -> np.ndarray[Any, Any]:
    """A tensor's values; bfloat16 as float32, which NumPy can compare."""
    if hasattr(tensor, "_array"):
        array = np.asarray(tensor._array)
        return array.astype(np.float32) if array.dtype == ml_dtypes.bfloat16 else array
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor._is_zerotensor():  # all zeros, and no memory
        tensor = tensor.clone()
    if str(tensor.dtype) == "torch.bfloat16":
        tensor = tensor.float()
    return np.asarray(tensor.numpy())


# -- making inputs ------------------------------------------------------------------------------


def arrays_for(sample: Sample | Wrong, dtype: str, *, seed: int = 0) -> list[Any]:
    """The inputs of a sample in this dtype, the same whenever asked."""
    rng = np.random.default_rng(seed)
    return [
        _numbers(given, dtype, rng) if isinstance(given, Real) else given.array.copy()
        for given in sample.inputs
    ]


def _numbers(given: Real, dtype: str, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    values = rng.uniform(given.low, given.high, given.shape)
    kind = np.dtype(getattr(ml_dtypes, dtype) if dtype == "bfloat16" else dtype)
    if kind.kind == "c":
        return np.asarray(values + 1j * rng.uniform(given.low, given.high, given.shape)).astype(
            kind
        )
    if kind.kind == "b":
        return np.asarray(values > (given.low + given.high) / 2)
    if kind.kind in "iu":
        low = max(int(given.low), 0) if kind.kind == "u" else int(given.low)
        return rng.integers(low, max(int(given.high) + 1, low + 1), given.shape).astype(kind)
    return np.asarray(values).astype(kind)


def strided(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same numbers in another place in memory: with holes, and dimensions in reverse."""
    if array.ndim == 0:
        return array
    room = np.zeros((*reversed(array.shape[:-1]), 2 * array.shape[-1]), array.dtype)
    order = (*reversed(range(array.ndim - 1)), array.ndim - 1)
    window = room.transpose(order)[..., ::2]
    window[...] = array
    return window


# -- comparing ----------------------------------------------------------------------------------

RELATIVE = {
    "float64": 1e-9,
    "complex128": 1e-9,
    "float32": 2e-5,
    "complex64": 2e-5,
    "float16": 4e-3,
    "bfloat16": 3e-2,
}
ABSOLUTE = {
    "float64": 1e-10,
    "complex128": 1e-10,
    "float32": 4e-6,
    "complex64": 4e-6,
    "float16": 2e-3,
    "bfloat16": 2e-2,
}


def assert_same_tensor(found: Any, expected: Any, tolerance: float = 1.0, what: str = "") -> None:
    """Equal dtype, shape and values, as far as the dtype is exact."""
    kind = str(expected.dtype).removeprefix("torch.")
    assert (what, str(found.dtype)) == (what, str(expected.dtype))
    assert (what, tuple(found.shape)) == (what, tuple(expected.shape))
    np.testing.assert_allclose(
        array_of(found),
        array_of(expected),
        rtol=RELATIVE.get(kind, 0.0) * tolerance,
        atol=ABSOLUTE.get(kind, 0.0) * tolerance,
        err_msg=what,
    )


def assert_same(found: Any, expected: Any, tolerance: float = 1.0, what: str = "") -> None:
    """Equal results: tensors by value, the rest by ==."""
    if is_tensor(expected):
        assert is_tensor(found), f"{what}: {found!r} is no tensor"
        assert_same_tensor(found, expected, tolerance, what)
    elif isinstance(expected, tuple | list):
        assert isinstance(found, tuple | list), f"{what}: {found!r} is no sequence"
        assert (what, len(found)) == (what, len(expected))
        for i, (ours_item, theirs_item) in enumerate(zip(found, expected, strict=True)):
            assert_same(ours_item, theirs_item, tolerance, f"{what}[{i}]")
    elif isinstance(expected, float):
        np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=what)
    elif isinstance(expected, int) and not isinstance(expected, bool):
        # PyTorch shows a saved -1 as 2**64 - 1.
        assert (what, int(found) % 2**64) == (what, expected % 2**64)
    else:
        assert (what, str(found)) == (what, str(expected))


# -- the graph behind a result ------------------------------------------------------------------


def graph_of(outputs: Sequence[Any]) -> list[tuple[str, list[Any]]]:
    """Every node behind the outputs in the order a walk meets them: name, and where edges go."""
    return [
        (name_of(node), [(None if n is None else i, nr) for n, nr, i in edges])
        for node, edges in walk(outputs)
    ]


def walk(outputs: Sequence[Any]) -> list[tuple[Any, list[Any]]]:
    """Nodes breadth first; edges as (node, input number, place of the node in this list)."""
    roots = [o.grad_fn for o in outputs if is_tensor(o) and o.grad_fn is not None]
    order: dict[Any, int] = {}
    for root in roots:
        order.setdefault(root, len(order))
    queue = list(order)
    found = []
    while queue:
        node = queue.pop(0)
        edges = []
        for following, nr in node.next_functions:
            if following is not None and following not in order:
                order[following] = len(order)
                queue.append(following)
            edges.append((following, nr, order.get(following)))
        found.append((node, edges))
    return found


def name_of(node: Any) -> str:
    return str(type(node).__name__)


def saved_of(node: Any) -> dict[str, Any]:
    """What a node kept: `_saved_*` by name."""
    names = [name for name in dir(node) if name.startswith("_saved_")]
    return {name: getattr(node, name) for name in names}


def saved_names_of(node: Any) -> list[str]:
    """What it keeps is called so, without being unpacked."""
    return sorted(n.removeprefix("_saved_") for n in dir(node) if n.startswith("_saved_"))


def raw_names_of(node: Any) -> list[str]:
    """Which of these are tensors, and so can be had without being unpacked."""
    return sorted(name for name in dir(node) if name.startswith("_raw_saved_"))


def grads_of(run: Run, seeds: Sequence[Any], *, create_graph: bool) -> list[Any]:
    """The gradients of all inputs that ask for one, for these gradients of the outputs."""
    differentiable = [o for o in run.outputs if is_tensor(o) and o.requires_grad]
    wanted = [x for x in run.inputs if x.requires_grad]
    return list(
        run.engine.module.autograd.grad(
            differentiable,
            wanted,
            [run.engine.wrap(seed) for seed in seeds],
            create_graph=create_graph,
            retain_graph=True,
            allow_unused=True,
        )
    )


def seeds_for(run: Run, seed: int) -> list[Any]:
    """A gradient for every differentiable output."""
    rng = np.random.default_rng(seed)
    made = []
    for output in run.outputs:
        if is_tensor(output) and output.requires_grad:
            like = array_of(output)
            values = rng.uniform(-1, 1, like.shape)
            if like.dtype.kind == "c":
                values = values + 1j * rng.uniform(-1, 1, like.shape)
            made.append(np.asarray(values).astype(like.dtype))
    return made
