"""Samples of `torch.masked`: a third of the elements is left out, and all of one row."""

from __future__ import annotations

from tests.runtime.core.ops.written import cases, faults
from tests.runtime.oracle import Fixed

FEW = ("float32", "bfloat16", "int64", "uint8", "bool", "complex128")
SHAPE = (3, 4)
MASK = Fixed([[True, False, True, True], [False, False, True, False], [False] * 4])
KEEPS = Fixed([[True, False, True, True], [False, False, True, False], [True] * 4])
"""With an element in each row."""


def masked(name: str, *options: str, mask: Fixed = MASK, grad: bool = True) -> None:
    texts = [f"torch.masked.{name}(x, {each + ', ' if each else ''}mask=y)" for each in options]
    cases(f"masked.{name}", [SHAPE, mask], *texts, dtypes=FEW, grad=grad)
    first = options[0]
    cases(f"masked.{name}", [SHAPE], f"torch.masked.{name}(x, {first})", dtypes=FEW, grad=grad)


masked("sum", "1", "", "dim=(0, 1), keepdim=True", "0, dtype=torch.float64")
masked("prod", "1", "", "dim=(0, 1), keepdim=True")
masked("cumsum", "1", "-2, dtype=torch.float64")
masked("cumprod", "1", "-2")
masked("amax", "1", "", "dim=(0, 1), keepdim=True", mask=KEEPS)
masked("amin", "1", "", "0, dtype=torch.float64", mask=KEEPS)
masked("argmax", "1", "", "0, keepdim=True, dtype=torch.int64", grad=False)
masked("argmin", "1", "", "0, keepdim=True, dtype=torch.int64", grad=False)
masked("mean", "1", "", "dim=(0, 1), keepdim=True", mask=KEEPS)
masked("median", "1", "0, keepdim=True", mask=KEEPS)
masked("logsumexp", "1", "", "0, keepdim=True", mask=KEEPS)
masked("norm", "2, 1", "1, ()", "float('inf'), (0, 1), keepdim=True", mask=KEEPS)
masked("var", "0", "dim=1, unbiased=False", "correction=0, keepdim=True", mask=KEEPS)
masked("std", "0", "dim=1, unbiased=False, dtype=torch.float64", mask=KEEPS)
masked("softmax", "1", "0, dtype=torch.float64", mask=KEEPS)
masked("log_softmax", "0", mask=KEEPS)
masked("softmin", "1", mask=KEEPS)
masked("normalize", "2.0, 1", "1.0, dim=0, eps=0.5", mask=KEEPS)
cases(
    "masked.logaddexp",
    [SHAPE, SHAPE, KEEPS],
    "torch.masked.logaddexp(x, y)",
    "torch.masked.logaddexp(x, y, input_mask=z)",
    "torch.masked.logaddexp(x, y, other_mask=z[0])",
    dtypes=FEW,
)
cases(
    "masked.sum",
    [SHAPE, MASK],
    "torch.masked.sum(x, 1, mask=y[:, :1])",
    "torch.masked.sum(x, 0, mask=y[0].long() * 2)",
    "torch.masked._output_mask(torch.masked.sum, x, 1, mask=y)",
    "torch.masked._output_mask(torch.masked.norm, x, 2.0, dim=0, keepdim=True, mask=y)",
    "torch.masked._output_mask(torch.masked.cumsum, x, 1, mask=y[0])",
    dtypes=(),
    grad=False,
)
cases("masked.mean", [SHAPE, MASK], "torch.masked.mean(x, 1, mask=y)", dtypes=FEW, grad=False)
cases("masked.amax", [SHAPE, MASK], "torch.masked.amax(x, 1, mask=y)", dtypes=FEW, grad=False)
faults(
    "masked.sum",
    [SHAPE, MASK],
    "torch.masked.sum(x, (0, 0), mask=y)",
    "torch.masked.sum(x, 2, mask=y)",
    "torch.masked.sum(x, 0, mask=y[None])",
    "torch.masked.sum(x, 0, mask=y[:, :2])",
    "torch.masked.sum(x, 0, y)",
    "torch.masked.mean(x.long(), 0, mask=y)",
    "torch.masked.mean(x, 0, dtype=torch.int64)",
    "torch.masked.median(x.long(), 1, mask=y)",
    "torch.masked.var(x, 0, unbiased=True, correction=1)",
    "torch.masked.norm(x.long(), float('-inf'), 0, mask=y)",
    "torch.masked.amax(x + 0j, 0, mask=y)",
    "torch.masked.amin(x > 0, 0, mask=y)",
    "torch.masked.normalize(x, 2.0, mask=y)",
    "torch.masked._input_mask(x)",
    "torch.masked._output_mask(3, x, mask=y)",
)
