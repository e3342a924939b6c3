"""Pointwise operations on any shapes, dtypes and layouts: what PyTorch makes of them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as arrays_of

from tests.runtime import oracle

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

UNARY = [
    "neg",
    "abs",
    "exp",
    "sin",
    "tanh",
    "sigmoid",
    "sqrt",
    "reciprocal",
    "square",
    "sign",
    "floor",
    "round",
    "relu",
]
BINARY = ["add", "sub", "mul", "div", "maximum", "minimum", "pow", "remainder", "eq", "lt", "atan2"]
KINDS = ("bool", "uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32", "float64")
REFUSALS = (RuntimeError, TypeError, NotImplementedError)


@st.composite
def arrays(draw: st.DrawFn, shape: tuple[int, ...], kinds: tuple[str, ...] = KINDS) -> Any:
    """Small numbers of some dtype, lying in memory in some order."""
    kind = draw(st.sampled_from(kinds))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    values = rng.integers(0, 5, shape) if kind[0] in "ub" else rng.integers(-4, 5, shape)
    made = np.asarray(values).astype(ml_dtypes.bfloat16 if kind == "bfloat16" else kind)
    if kind in ("float32", "float64"):
        made = np.asarray(made + rng.uniform(0.1, 0.9, shape)).astype(kind)
    return oracle.strided(made) if draw(st.booleans()) else made


@st.composite
def broadcastable(draw: st.DrawFn, kinds: tuple[str, ...] = KINDS) -> tuple[Any, Any]:
    """Two arrays whose shapes go together, of the same or of different dtypes."""
    shapes = draw(arrays_of.mutually_broadcastable_shapes(num_shapes=2, min_side=0, max_side=4))
    one, two = (draw(arrays(shape, kinds)) for shape in shapes.input_shapes)
    return one, two


def outcome(engine: oracle.Engine, name: str, inputs: tuple[Any, ...]) -> Any:
    """The result, or the class of what was raised."""
    tensors = [engine.wrap(array) for array in inputs]
    try:
        return getattr(engine.module, name)(*tensors)
    except REFUSALS as refusal:
        return type(refusal)


def assert_same_outcome(name: str, inputs: tuple[Any, ...]) -> None:
    found = outcome(oracle.ours(), name, inputs)
    expected = outcome(oracle.theirs(), name, tuple(a.copy() for a in inputs))
    if isinstance(expected, type):
        assert isinstance(found, type), f"{name} of {inputs} is refused by PyTorch"
        assert issubclass(found, expected)
    else:
        oracle.assert_same(found, expected, 4.0, name)


@pytest.mark.parametrize("name", UNARY)
@given(data=st.data())
def test_functions_of_one_tensor(name: str, data: st.DataObject) -> None:
    array = data.draw(arrays_of.array_shapes(min_dims=0, min_side=0, max_side=4).flatmap(arrays))

    assert_same_outcome(name, (array,))


@pytest.mark.parametrize("name", BINARY)
@given(data=st.data())
def test_functions_of_two_tensors(name: str, data: st.DataObject) -> None:
    assert_same_outcome(name, data.draw(broadcastable()))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow", "remainder", "gt", "eq"])
@given(data=st.data(), number=st.sampled_from([0, 1, 2, 3, 0.5, 2.0, True, False]))
def test_a_tensor_and_a_number(name: str, data: st.DataObject, number: float) -> None:
    array = data.draw(arrays_of.array_shapes(min_dims=0, min_side=0, max_side=4).flatmap(arrays))
    found = with_number(oracle.ours(), name, array, number)
    expected = with_number(oracle.theirs(), name, array.copy(), number)

    if isinstance(expected, type):
        assert isinstance(found, type)
        assert issubclass(found, expected)
    else:
        oracle.assert_same(found, expected, 4.0, name)


def with_number(engine: oracle.Engine, name: str, array: Any, number: float) -> Any:
    try:
        return getattr(engine.module, name)(engine.wrap(array), number)
    except REFUSALS as refusal:
        return type(refusal)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "atan2"])
@given(pair=broadcastable(("float32", "float64")))
def test_gradients_undo_broadcasting_and_promotion(name: str, pair: tuple[Any, Any]) -> None:
    found = gradients(oracle.ours(), name, pair)
    expected = gradients(oracle.theirs(), name, tuple(a.copy() for a in pair))

    # Of two precisions the lesser one counts, whichever the gradient is in.
    tolerance = 4.0 if pair[0].dtype == pair[1].dtype else 1e5
    oracle.assert_same(found, expected, tolerance, name)


def gradients(engine: oracle.Engine, name: str, pair: tuple[Any, ...]) -> Any:
    tensors = [engine.wrap(array).requires_grad_(True) for array in pair]
    made = getattr(engine.module, name)(*tensors)
    made.sum().backward()
    return [tensor.grad for tensor in tensors]
