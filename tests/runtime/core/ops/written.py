"""Samples written as text: `cases("view", [(2, 3, 4)], "x.view(6, 4)", "x.view(-1)")`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from tests.runtime.oracle import Sample, Wrong, samples, say_family, wrong

NAMES = ("x", "y", "z", "u")


def written(text: str) -> Callable[..., Any]:
    """A call of the module and one tensor per input, which the text names x, y, z and u.

    Lines before the last are run first; the value of the last is the result.
    """
    *before, last = text.strip().split("\n")
    prelude = compile("\n".join(before), f"<sample {text!r}>", "exec")
    code = compile(last, f"<sample {text!r}>", "eval")

    def call(torch: Any, *tensors: Any) -> Any:
        names = dict(zip(NAMES, tensors, strict=False))
        names |= {"torch": torch, "F": torch.nn.functional}
        exec(prelude, names)
        return eval(code, names)

    return call


def cases(name: str, inputs: Sequence[Any], *texts: str, **options: Any) -> None:
    """File samples under the name of an operation."""
    given = [Sample(written(text), *inputs, **options) for text in texts]
    samples(name, *given)
    say_family(given, sys._getframe(1))


def faults(name: str, inputs: Sequence[Any], *texts: str, dtype: str = "float64") -> None:
    """File calls that must fail under the name of an operation."""
    given = [Wrong(written(text), *inputs, dtype=dtype) for text in texts]
    wrong(name, *given)
    say_family(given, sys._getframe(1))
