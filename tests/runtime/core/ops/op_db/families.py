"""Asks one question of every sample, and says which samples answer otherwise.

The samples are asked in a loop, a test for each file of samples: a test of its own for each of
some ten thousand samples took ten times as long as its question. To look at few of them:

    make test ARGS='tests/runtime/ops -k windows'       # what samples/windows.py holds
    make test ARGS='tests/runtime/ops --sample mul-3'   # one sample; `--sample mul` is all of mul's
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from tests.runtime import oracle
from tests.runtime.oracle import SAMPLES, WRONG, Real, Sample, Wrong

for _module in pkgutil.iter_modules(
    importlib.import_module("tests.runtime.core.ops.samples").__path__
):
    importlib.import_module(f"tests.runtime.core.ops.samples.{_module.name}")

Case = tuple[str, Any]
"""The name of a sample (`mul-3`), and what is asked about: the sample, and what else varies."""


def named(filed: dict[str, list[Any]]) -> list[Case]:
    return [
        (f"{name}-{i}", each)
        for name, given in sorted(filed.items())
        for i, each in enumerate(given)
    ]


CALLS: list[tuple[str, Sample]] = named(SAMPLES)
DIFFERENTIABLE = [(name, sample) for name, sample in CALLS if sample.grad]
REFUSED: list[tuple[str, Wrong]] = named(WRONG)


def operation_of(name: str) -> str:
    """`mul` of `mul-3`."""
    return name.rpartition("-")[0]


def reals(sample: Sample) -> list[bool]:
    """Which inputs ask for a gradient."""
    return [isinstance(given, Real) and sample.grad for given in sample.inputs]


def in_families(cases: Iterable[Case]) -> dict[str, list[Case]]:
    """By the file in which the samples are written."""
    families: dict[str, list[Case]] = {}
    for name, case in cases:
        sample = case[0] if isinstance(case, tuple) else case
        families.setdefault(sample.family, []).append((name, case))
    return dict(sorted(families.items()))


def asked_of(cases: Iterable[Case]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a question about a sample on both engines a test for each family of samples."""
    families = in_families(cases)

    def decorate(question: Callable[..., None]) -> Callable[..., None]:
        @pytest.mark.parametrize("family", families)
        def test(family: str, request: pytest.FixtureRequest) -> None:
            engines = oracle.ours(), oracle.theirs()
            ask(lambda *case: question(*case, *engines), chosen(families[family], request))

        test.__doc__ = question.__doc__
        return test

    return decorate


def chosen(cases: Iterable[Case], request: pytest.FixtureRequest) -> list[Case]:
    """All, or those that `--sample` names."""
    name = request.config.getoption("--sample")
    return [case for case in cases if is_chosen(case[0], name)]


def is_chosen(name: str, chosen: str | None) -> bool:
    return chosen is None or chosen in {name, operation_of(name)}


def ask(question: Callable[..., None], cases: Iterable[Case]) -> None:
    """Ask about each, and fail with all that differ; the first one's traceback is shown."""
    failed = list(differing(question, cases))
    if failed:
        told = "\n".join(f"{name}: {shortened(error)}" for name, error in failed)
        raise AssertionError(f"{len(failed)} differ:\n{told}") from failed[0][1]


def differing(
    question: Callable[..., None], cases: Iterable[Case]
) -> Iterator[tuple[str, BaseException]]:
    for name, case in cases:
        try:
            question(*case) if isinstance(case, tuple) else question(case)
        except (Exception, pytest.fail.Exception) as error:
            yield name, error


def shortened(error: BaseException) -> str:
    """The type of an error and the first lines of what it says."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' | '.join(lines[:8])[:600]}"
