"""A program says the same of itself on both engines: every node, edge, saved value and event."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradscope.analysis.likeness import compare
from gradscope.analysis.likeness.aspects import Aspect
from gradscope.trace.trace import Trace
from tests.analysis.likeness.engines import (
    lines,
    on_gradscope,
    on_pytorch,
    script_on_gradscope,
    script_on_pytorch,
)
from tests.programs.ordinary import ROOMS, programs_of
from tests.shared.searching import SEARCHING

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

HERE = Path(__file__).parents[3]
EVERY = 1 if SEARCHING else 3
"""In every run of the tests one script in so many is asked, in `make search` all."""

SCRIPTS = [
    *sorted((HERE / "samples").glob("*.py")),
    *sorted((HERE / "docs" / "engine").glob("*.py")),
    *sorted((HERE / "tests" / "runtime" / "programs").glob("*.py")),
]
MODELS = sorted((HERE / "samples" / "models").glob("*.py"))

OTHERWISE = {
    "two_devices.py": "it computes on simulated devices where there are some: not on PyTorch",
    "checkpointed.py": "torch.utils.checkpoint packs and unpacks by hooks of its own",
}
"""Scripts that do something else on each engine, and why."""

EXCEPT = {
    "MkldnnRnnLayerBackward0": ("result3", "oneDNN's workspace; ours has another layout"),
}
"""What a node keeps that differs, and why."""


A_VIEW = "a kernel's gradient is a view on one engine only, and to a view nothing is added in place"
LAID_OUT = "PyTorch's gradient is laid out otherwise than the leaf, so that `.grad` is a copy of it"
IN_MEMORY = {
    "factorizations": A_VIEW,
    "linear_algebra": LAID_OUT,
    "pooling": A_VIEW,
    "resnet.py": A_VIEW,
    "scaled_dot_product": LAID_OUT,
    "triangles": A_VIEW,
}
"""Programs in which other sums are made in place, or `.grad` is taken otherwise, and why.

What a kernel's result shares its memory with decides, and nothing else sees it.
"""
OF_MEMORY = frozenset({"buffer_added.in_place", "accumulate.how"})


def differences(ours: Trace, theirs: Trace, name: str) -> list[str]:
    """A few lines that differ, theirs first."""
    without = OF_MEMORY if name in IN_MEMORY else frozenset()
    one, other = (
        list(_without_exceptions(each))
        for each in (
            lines(theirs, ours, without=without),
            lines(ours, theirs, without=without),
        )
    )
    if one == other:
        return []
    return list(difflib.unified_diff(one[:5000], other[:5000], lineterm="", n=2))[2:30]


def _without_exceptions(told: list[str]) -> Iterator[str]:
    node = ""
    for line in told:
        if line.startswith("node "):
            node = line.split()[2]
        slot, _ = EXCEPT.get(node, ("", ""))
        if not (slot and line.startswith(f"  keeps {slot} ")):
            yield line


@pytest.mark.parametrize("room", ROOMS)
def test_a_program_is_told_alike_on_both_engines(room: str) -> None:
    differ = {
        program.__name__: found
        for program in programs_of(room)
        if (found := differences(on_gradscope(program), on_pytorch(program), program.__name__))
    }

    assert differ == {}


ROUNDED = {
    "encoder_layer": "gradients that cancel out: what is left of them is rounding",
    "layer_normalization": "gradients that cancel out: what is left of them is rounding",
    "padding": "a slice of memory that nobody has written yet",
}
"""Programs in which values are further apart than ordinary rounding takes them, and why."""


@pytest.mark.search
@pytest.mark.parametrize("room", ROOMS)
def test_values_are_alike_on_both_engines(room: str) -> None:
    differ = {}
    for program in programs_of(room)[:: 1 if SEARCHING else 10]:
        ours, theirs = on_gradscope(program, "values"), on_pytorch(program, "values")
        values = compare(theirs, ours).sections[-1]
        assert values.kind is Aspect.VALUES
        if values.first is not None and program.__name__ not in ROUNDED:
            differ[program.__name__] = values

    assert differ == {}


def test_there_are_enough_programs() -> None:
    assert sum(len(programs_of(room)) for room in ROOMS) >= 100


@pytest.mark.search
def test_a_script_is_told_alike_on_both_engines() -> None:
    asked = [path for path in SCRIPTS[::EVERY] if path.name not in OTHERWISE]
    differ = {
        path.name: found
        for path in asked
        if (found := differences(script_on_gradscope(path), script_on_pytorch(path), path.name))
    }

    assert differ == {}


@pytest.mark.slow
@pytest.mark.search
@pytest.mark.parametrize("path", MODELS if SEARCHING else MODELS[:1], ids=lambda path: path.stem)
def test_a_model_is_told_alike_on_both_engines(path: Path) -> None:
    assert (
        differences(script_on_gradscope(path, "2"), script_on_pytorch(path, "2"), path.name) == []
    )
