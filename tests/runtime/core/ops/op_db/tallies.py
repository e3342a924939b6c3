"""How many samples of an operator pass, and what the others say."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.runtime.core.ops.op_db import database
from tests.runtime.core.ops.op_db.one_sample import UNSET, Differs, NotCarriedError, check
from tests.runtime.core.ops.op_db.variants import check_error, check_inplace, check_out

FLOATS = ("float64", "float32", "float16", "bfloat16")
ALL = (*FLOATS, "complex128", "complex64", "int64", "int32", "int16", "int8", "uint8", "bool")
GRADIENTS = frozenset({"float64", "complex128"})


@dataclass
class Tally:
    """How many samples of an operator passed, and what the others say."""

    name: str
    tier: int = 0
    passed: int = 0
    total: int = 0
    stages: dict[str, int] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)
    nodes: set[str] = field(default_factory=set)
    absent: bool = False

    @property
    def share(self) -> float:
        return self.passed / self.total if self.total else 0.0

    def count(self, problem: Differs | None, where: str) -> None:
        self.total += 1
        if problem is None:
            self.passed += 1
            return
        self.stages[problem.stage] = self.stages.get(problem.stage, 0) + 1
        self.differences.append(f"{where} {problem}")


def supported(info: Any, dtypes: tuple[str, ...]) -> Iterator[Any]:
    import torch

    known = info.supported_dtypes("cpu")
    for name in dtypes:
        if getattr(torch, name) in known:
            yield getattr(torch, name)


def samples(info: Any, dtype: Any) -> Iterator[Any]:
    """The samples of an entry, the same whenever asked."""
    import torch

    torch.manual_seed(0)
    np.random.seed(0)
    name = str(dtype).removeprefix("torch.")
    wants = name in GRADIENTS and info.supports_autograd and dtype in _differentiated(info)
    with contextlib.suppress(StopIteration):
        yield from info.sample_inputs("cpu", dtype, requires_grad=wants)


def _differentiated(info: Any) -> Any:
    return info.supported_backward_dtypes("cpu")


def tally(
    name: str, dtypes: tuple[str, ...] = ALL, *, variants: bool = True, at_most: int | None = None
) -> Tally:
    """All samples of an operator, or of each dtype a few."""
    made = Tally(name, database.tiers().get(name, 0))
    for info in database.entries()[name]:
        try:
            database.our_function(info)
        except database.Absent:
            made.absent = True
            made.differences.append("there is no such operation")
            made.total += 1
            continue
        for dtype in supported(info, dtypes):
            _tally_dtype(made, info, dtype, variants, at_most)
        if variants:
            _tally_errors(made, info)
    return made


def spread(given: Iterator[Any], at_most: int | None) -> Iterator[tuple[int, Any]]:
    """All with their numbers; or some: the first, the second, the fourth, the eighth …"""
    import torch

    for number, sample in enumerate(given):
        if at_most is None or (number + 1).bit_count() == 1:
            yield number, sample
        else:  # the next one is drawn as if this one had been run
            torch.default_generator.manual_seed(1)
        if at_most is not None and (number + 1) >> (at_most - 1):
            return


def _tally_dtype(
    made: Tally, info: Any, dtype: Any, variants: bool, at_most: int | None = None
) -> None:
    kind = str(dtype).removeprefix("torch.")
    for number, sample in spread(samples(info, dtype), at_most):
        where = f"{info.variant_test_name or ''} {kind} #{number}".strip()
        problem = None
        try:
            node = check(info, sample, second=info.supports_gradgrad)
            if node:
                made.nodes.add(node)
            if variants:
                _check_variants(info, sample)
        except NotCarriedError:
            continue
        except Differs as found:
            problem = found
        made.count(problem, where)


def _check_variants(info: Any, sample: Any) -> None:
    plain = _without_gradients(sample)
    if info.inplace_variant is not None and not sample.broadcasts_input:
        check_inplace(info, sample)
    if info.supports_out and _takes_out(info) and not info.name.startswith(UNSET):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check_out(info, plain)


def _takes_out(info: Any) -> bool:
    return not getattr(info.op, "__module__", "").startswith("torch.testing")


def _without_gradients(sample: Any) -> Any:
    def plain(value: Any) -> Any:
        return value.detach()

    return sample.transform(lambda t: plain(t) if hasattr(t, "detach") else t)


def _tally_errors(made: Tally, info: Any) -> None:
    if info.error_inputs_func is None:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, wrong in enumerate(info.error_inputs("cpu")):
            problem = None
            try:
                check_error(info, wrong)
            except Differs as found:
                problem = found
            except NotImplementedError:
                continue
            made.count(problem, f"error #{number}")
