"""How results lie in memory for inputs that lie in odd ways: `.view()` depends on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from tests.runtime import oracle
from tests.runtime.both import runtime
from tests.runtime.core.ops.op_db.families import SAMPLES

Array = np.ndarray[Any, Any]
Steps = tuple[int | None, ...]

OPEN = {
    ("linalg.ldl_factor", 0),  # a singular matrix is refused by ours, factored by PyTorch
}
"""Samples of which the results are known to lie otherwise than PyTorch's."""


def turned(array: Array) -> Array:
    return np.asfortranarray(array)


def swapped(array: Array) -> Array:
    if array.ndim < 2:
        return array
    return np.ascontiguousarray(array.swapaxes(-1, -2)).swapaxes(-1, -2)


def stepped(array: Array) -> Array:
    if not array.ndim:
        return array
    room = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    room[..., ::2] = array
    return room[..., ::2]


def expanded(array: Array) -> Array:
    if not array.ndim or not array.size:
        return array
    return as_strided(array.copy(), array.shape, (0, *array.strides[1:]))


def channels_last(array: Array) -> Array:
    if array.ndim not in (4, 5):
        return array
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)


LAYOUTS = (turned, swapped, stepped, expanded, channels_last)


def layouts(sample: oracle.Sample) -> Iterator[tuple[str, list[Array]]]:
    """The inputs of a sample, all of them or only the first laid out in another way."""
    arrays = oracle.arrays_for(sample, "float64")
    real = [i for i, given in enumerate(sample.inputs) if isinstance(given, oracle.Real)]
    yield "plain", arrays
    for layout in LAYOUTS:
        laid = [layout(a.copy()) if i in real else a for i, a in enumerate(arrays)]
        if any(one.strides != a.strides for one, a in zip(laid, arrays, strict=True)):
            yield layout.__name__, laid
            if len(real) > 1 and layout in (swapped, channels_last):
                first = [laid[i] if i == real[0] else a for i, a in enumerate(arrays)]
                yield f"first {layout.__name__}", first


def steps(tensor: Any) -> Steps:
    """The strides that say something: not those of dims of size 1, nor of an empty tensor."""
    shape = tuple(tensor.shape)
    if 0 in shape:
        return shape
    return tuple(
        None if size == 1 else step for size, step in zip(shape, tensor.stride(), strict=True)
    )


def result_steps(engine: oracle.Engine, sample: oracle.Sample, arrays: Sequence[Array]) -> Any:
    engine.module.manual_seed(0)
    result = sample.call(engine.module, *map(engine.wrap, arrays))
    return [steps(one) for one in oracle.flat(result) if oracle.is_tensor(one)]


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
def test_results_lie_as_pytorch_lays_them_for_every_operation_and_layout() -> None:
    ours, theirs = oracle.ours(), oracle.theirs()
    tried, differing = 0, {}
    for name, samples in SAMPLES.items():
        for number, sample in enumerate(samples[:2]):
            if (name, number) in OPEN:
                continue
            for layout, arrays in layouts(sample):
                try:
                    expected = result_steps(theirs, sample, arrays)
                except Exception:  # expanded, a matrix may be singular
                    continue
                tried += 1
                found = result_steps(ours, sample, arrays)
                if found != expected:
                    differing[name, number, layout] = found, expected
    assert differing == {}
    assert tried > 5_000


KEPT: dict[str, tuple[int, ...]] = {
    "x.roll(1, 0)": (3, 1), "x.masked_fill(x > 0, 0.0)": (3, 1), "x.tril()": (3, 1),
    "y.prod(3)": (12, 4, 1), "F.logsigmoid(x)": (3, 1), "x.cummax(0)[0]": (3, 1),
    "x.logcumsumexp(0)": (3, 1), "x.softmax(1)": (3, 1), "x.repeat(1, 1)": (3, 1),
    "x.exp()": (1, 4), "x.sort(0)[0]": (1, 4), "x.flip(0)": (1, 4), "F.gelu(x)": (1, 4),
    "torch.erf(x)": (1, 4), "x + torch.ones(4, 3)": (1, 4), "torch.ones(4, 3) + x": (3, 1),
    "x > torch.ones(4, 3)": (1, 4), "torch.addcmul(x, row, row)": (1, 4), "x[[0, 1]]": (3, 1),
    "torch.zeros_like(x)": (1, 4), "torch.zeros_like(row)": (3, 1), "row.sort(0)[0]": (3, 1),
    "torch.ones_like(x, memory_format=torch.contiguous_format)": (3, 1), "row.flip(0)": (3, 1),
    "F.gelu(row)": (3, 1), "torch.full_like(row, 2.0)": (3, 1), "x.take_along_dim(at, 0)": (3, 1),
    "torch.fft.fft(x)": (3, 1), "F.max_pool2d(y, 2)": (12, 1, 6, 3),
    "F.pad(y, (1, 1))": (72, 1, 18, 3),
    "F.conv2d(y, torch.ones(2, 3, 2, 2))": (18, 1, 6, 2), "torch.zeros_like(y)": (48, 1, 12, 3),
}  # fmt: skip
"""Strides that PyTorch gives results."""


def kept_steps(torch: Any) -> dict[str, tuple[int, ...]]:
    scope = {
        "torch": torch,
        "F": torch.nn.functional,
        "x": torch.arange(12.0).view(3, 4).t(),
        "row": torch.ones(1, 3).expand(4, 3),
        "at": torch.zeros(4, 3, dtype=torch.long),
        "y": torch.ones(2, 3, 4, 4).contiguous(memory_format=torch.channels_last),
    }
    return {call: eval(call, scope).stride() for call in KEPT}


def test_results_of_ours_lie_as_pytorch_once_laid_them() -> None:
    assert kept_steps(runtime()) == KEPT


@pytest.mark.torch
def test_pytorch_lays_results_so() -> None:
    import torch

    assert kept_steps(torch) == KEPT
