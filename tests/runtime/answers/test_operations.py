"""Every sample of every operation: values, graphs, gradients, second gradients, refusals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from gradscope.runtime.core.rows.offered import FUNCTIONS, METHODS, NN_FUNCTIONS
from gradscope.runtime.core.rows.operation import REGISTRY
from gradscope.runtime.core.rows.traits import INTERNAL
from tests.runtime import oracle
from tests.runtime.answers import held_samples
from tests.runtime.answers.kept import as_pytorch_answered
from tests.runtime.core.ops.op_db import database
from tests.runtime.core.ops.op_db.families import CALLS, REFUSED, operation_of, reals
from tests.runtime.core.ops.seconds import second
from tests.runtime.oracle import Engine, Real, Sample, Wrong

pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch's own deprecations


def by_family(folder: str, cases: Iterable[tuple[str, Any]]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name, sample in cases:
        found.setdefault(f"{folder}/{sample.family}", {})[name] = sample
    return found


def engine_of(torch: Any) -> Engine:
    return oracle.theirs() if torch.__name__ == "torch" else oracle.ours()


@as_pytorch_answered(
    {**by_family("operations", CALLS), "operations/held": dict(held_samples.cases())}
)
def test_an_operation_does_what_pytorchs_does(torch: Any, sample: Sample) -> Any:
    return done(engine_of(torch), sample)


def done(engine: Engine, sample: Sample) -> Any:
    """Everything there is to see of a call."""
    arrays = oracle.arrays_for(sample, "float64")
    run = engine.run(sample, arrays, reals(sample))
    found: dict[str, Any] = {"result": run.result}
    if not sample.grad:
        return found
    found["graph"] = graph_of(run)
    seeds = oracle.seeds_for(run, 2)
    found["gradient"] = oracle.grads_of(run, seeds, create_graph=False)
    if sample.order > 1:
        found["second"] = second_of(run)
    return found


def second_of(run: oracle.Run) -> Any:
    """Second gradients, or why there are none."""
    try:
        return second(run)[1]
    except RuntimeError as refused:
        return first_line(refused)


WRITES = [
    (name, sample)
    for name, sample in CALLS
    if (called := operation_of(name).partition(".")[0]).endswith("_") and not called.endswith("__")
]


@as_pytorch_answered({"operations/writes": dict(WRITES)})
def test_writes_are_counted_as_pytorch_counts_them(torch: Any, sample: Sample) -> Any:
    arrays = oracle.arrays_for(sample, "float64")
    run = engine_of(torch).run(sample, arrays, [False] * len(arrays))
    return [output._version for output in run.outputs if oracle.is_tensor(output)]


def graph_of(run: oracle.Run) -> list[str]:
    """A line for each node: its name, what it saved, and where its edges go."""
    return [
        " ".join(
            [
                f"{oracle.name_of(node)}({', '.join(oracle.saved_names_of(node))})",
                *("-" if place is None else f"{place}.{nr}" for _, nr, place in edges),
            ]
        )
        for node, edges in oracle.walk(run.outputs)
    ]


@as_pytorch_answered(by_family("refusals", REFUSED))
def test_a_wrong_call_is_refused_in_pytorchs_words(torch: Any, call: Wrong) -> Any:
    arrays = oracle.arrays_for(call, call.dtype)
    wanted = [isinstance(given, Real) and call.dtype[0] in "fc" for given in call.inputs]
    with pytest.raises(Exception) as refused:
        engine_of(torch).run(call, arrays, wanted)
    return first_line(refused.value)


def first_line(error: BaseException) -> str:
    """Its type, as Python has it, and the first line of what it says."""
    kind = next(each for each in type(error).__mro__ if each.__module__ == "builtins")
    return f"{kind.__name__}: {str(error).partition(chr(10))[0]}"


def test_every_operation_users_see_has_kept_answers() -> None:
    offered = {name for name, op in REGISTRY.items() if INTERNAL not in op.traits}
    offered |= {n for group in (FUNCTIONS, METHODS, NN_FUNCTIONS) for n in group}
    # What is always refused has wrong calls only.
    asked = {operation_of(name) for name, _ in [*CALLS, *REFUSED]}
    held = {operation_of(name) for name, _ in held_samples.cases()}
    asked |= {name for names in database.held_names() if names[0] in held for name in names}

    assert sorted(offered - asked) == []
