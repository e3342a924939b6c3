"""Random windows on random tensors, and writes through them: both engines see the same."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import gradscope.runtime as ours
from tests.runtime.engines import torch

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)
DIMS = st.integers(-4, 3)
SLICES = st.builds(
    slice,
    st.none() | st.integers(-5, 5),
    st.none() | st.integers(-5, 5),
    st.none() | st.integers(1, 3),
)
# What two ellipses mean, PyTorch does not say.
INDICES = (
    st.lists(st.integers(-4, 3) | SLICES | st.none() | st.just(Ellipsis), max_size=4)
    .filter(lambda items: sum(item is Ellipsis for item in items) < 2)
    .map(tuple)
)

STEPS = st.one_of(
    st.tuples(st.just("select"), DIMS, st.integers(-4, 3)),
    st.tuples(st.just("narrow"), DIMS, st.integers(-2, 3), st.integers(0, 3)),
    st.tuples(st.just("transpose"), DIMS, DIMS),
    st.tuples(st.just("unsqueeze"), DIMS),
    st.tuples(st.just("squeeze")),
    st.tuples(st.just("squeeze"), DIMS),
    st.tuples(st.just("flatten"), DIMS, DIMS),
    st.tuples(st.just("diagonal"), st.integers(-2, 2), DIMS, DIMS),
    st.tuples(st.just("unfold"), DIMS, st.integers(0, 3), st.integers(1, 2)),
    st.tuples(st.just("movedim"), DIMS, DIMS),
    st.tuples(st.just("expand"), st.lists(st.integers(0, 4), max_size=4).map(tuple)),
    st.tuples(st.just("view"), st.lists(st.integers(-1, 6), min_size=1, max_size=3).map(tuple)),
    st.tuples(st.just("reshape"), st.lists(st.integers(-1, 6), min_size=1, max_size=3).map(tuple)),
    st.tuples(st.just("permute"), st.permutations(range(3)).map(tuple)),
    st.tuples(st.just("__getitem__"), INDICES),
    st.tuples(st.just("contiguous")),
    st.tuples(st.just("t")),
)


def numbers(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.arange(1.0, 1.0 + int(np.prod(shape))).reshape(shape)


def made(engine: Any, shape: tuple[int, ...]) -> Any:
    return engine.from_numpy(numbers(shape)).requires_grad_(True)


def walked(tensor: Any, steps: Any) -> tuple[Any, list[str]]:
    """The tensor after all steps that were possible, and what became of each."""
    story = []
    for name, *arguments in steps:
        try:
            tensor = getattr(tensor, name)(*arguments)
            story.append("done")
        except (RuntimeError, IndexError, ValueError) as error:
            story.append(f"{type(error).__name__}: {str(error).splitlines()[0]}")
    return tensor, story


def graph(node: Any) -> Any:
    if node is None:
        return None
    return type(node).__name__, [graph(following) for following, _ in node.next_functions]


def steps(tensor: Any) -> list[int]:
    """The strides; that of a dim with one element says nothing."""
    return [s for s, n in zip(tensor.stride(), tensor.shape, strict=True) if n > 1]


def seen(tensor: Any) -> Any:
    """All that can be seen of a tensor without a backward."""
    return {
        "shape": tuple(tensor.shape),
        "stride": steps(tensor) if tensor.numel() else None,
        "offset": tensor.storage_offset() if tensor.numel() else None,
        "values": tensor.detach().tolist(),
        "contiguous": tensor.is_contiguous(),
        "is view": tensor._base is not None,
        "version": tensor._version,
        "graph": graph(tensor.grad_fn),
    }


@given(SHAPES, st.lists(STEPS, max_size=5))
def test_windows_of_windows_are_pytorchs(shape: tuple[int, ...], steps: Any) -> None:
    found, story = walked(made(ours, shape), steps)
    expected, their_story = walked(made(torch, shape), steps)

    assert story == their_story
    assert seen(found) == seen(expected)


@given(SHAPES, st.lists(STEPS, max_size=5))
def test_their_gradients_are_pytorchs(shape: tuple[int, ...], steps: Any) -> None:
    gradients = []
    for engine in (ours, torch):
        leaf = made(engine, shape)
        window, _ = walked(leaf, steps)
        weights = engine.from_numpy(numbers(tuple(window.shape)))
        (window * window * weights).sum().backward()
        gradients.append(leaf.grad.tolist())

    assert gradients[0] == gradients[1]


# A window that shows an element twice cannot be written to.
ONCE = STEPS.filter(lambda step: step[0] not in ("expand", "unfold"))
WRITES = st.sampled_from(["fill_", "mul_", "add_", "copy_", "zero_"])


@given(SHAPES, st.lists(ONCE, max_size=3), st.lists(STEPS, max_size=3), WRITES)
def test_what_is_written_through_a_window_is_seen_through_another(
    shape: tuple[int, ...], steps: Any, others: Any, write: str
) -> None:
    results = []
    for engine in (ours, torch):
        leaf = made(engine, shape)
        base = leaf * 2
        window, _ = walked(base, steps)
        other, _ = walked(base, others)
        try:
            getattr(window, write)(
                *([] if write == "zero_" else [3.0 if write != "copy_" else leaf.sum()])
            )
            story = "written"
        except RuntimeError as error:
            story = str(error).splitlines()[0]
        (base.sum() + (other * other).sum() + window.sum()).backward()
        results.append(
            {
                "story": story,
                "base": seen(base),
                "window": seen(window),
                "other": seen(other),
                "gradient": leaf.grad.tolist(),
            }
        )

    assert results[0] == results[1]
