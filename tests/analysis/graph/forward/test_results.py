"""Results of calls are not among their inputs, and buffers have their names, on both engines."""

from __future__ import annotations

import runpy
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gradscope.analysis.graph.forward.calls import ForwardCalls
from gradscope.analysis.graph.forward.facts import data_of
from gradscope.analysis.graph.forward.flows import Flows
from gradscope.record.from_runtime.script.aliases import torch_is_gradscope
from gradscope.trace.schema import NONE, Op, Tensor
from gradscope.trace.trace import Trace
from tests.analysis.likeness.engines import on_gradscope, on_pytorch

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

SCRIPT = Path(__file__).parent / "many_results.py"
RETURN_AN_INPUT = {"to", "lift_fresh", "broadcast_tensors", "type_as", "alpha_dropout", "real"}
"""Calls that return an input unchanged, if there is nothing to do."""


def of_script(engine: str, level: str) -> Trace:
    if engine == "gradscope":
        with torch_is_gradscope():
            return on_gradscope(lambda _: runpy.run_path(str(SCRIPT)), level)
    return on_pytorch(lambda _: runpy.run_path(str(SCRIPT)), level)


@pytest.mark.parametrize("level", ["engine", "full"])
@pytest.mark.parametrize("engine", ["gradscope", "torch"])
def test_no_call_has_its_own_or_a_later_result_as_input(engine: str, level: str) -> None:
    trace = of_script(engine, level)
    calls, flows = trace.once(ForwardCalls), trace.once(Flows)
    made = {tensor: place for place, each in enumerate(calls.outputs) for tensor in each}
    backwards = [(calls.of(f.user), calls.of(f.maker)) for f in flows.all if f.maker >= f.user]
    odd = set()
    for place, name in enumerate(calls.names):
        written = {write.tensor for write in calls.written(place)}
        if not name.endswith("_") and name not in RETURN_AN_INPUT:
            odd |= {
                (calls.of(place), tensor)
                for tensor in {*calls.inputs[place]} & {*calls.outputs[place]} - written
                if made[tensor] == place
            }

    assert len(set(calls.names)) >= 60
    assert len(flows.all) > 500
    assert backwards == []
    assert odd == set()


def inputs_of_calls(trace: Trace) -> Iterator[tuple[str, Counter[tuple[Any, ...]]]]:
    """The shapes and dtypes of each call's inputs; wrapped numbers left out."""
    rows = {row.id: row for row in trace.rows(Tensor)}
    for op in sorted(trace.rows(Op), key=lambda op: op.begin):
        if op.node != NONE:
            given = [rows[each] for each in dict.fromkeys(op.inputs)]
            kinds = ((row.shape, row.dtype) for row in given if row.shape)
            yield op.name.partition(".")[0], Counter(kinds)


def test_inputs_that_saved_values_show_are_those_that_calls_were_given() -> None:
    inferred, observed = (
        [*inputs_of_calls(of_script("torch", level))] for level in ("engine", "full")
    )

    assert [name for name, _ in inferred] == [name for name, _ in observed]
    more = {
        f"{name} {place}": given - known
        for place, ((name, given), (_, known)) in enumerate(zip(inferred, observed, strict=True))
        if given - known
    }
    assert more == {}


def a_model(torch: Any) -> None:
    class Net(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.bn1 = torch.nn.BatchNorm1d(3)
            self.register_buffer("scale", torch.full((3,), 2.0))

        def forward(self, x: Any) -> Any:
            return self.bn1(x) * self.scale

    net = Net()
    net(torch.randn(4, 3)).sum().backward()
    net.scale = torch.full((3,), 3.0)  # another tensor
    net(torch.randn(4, 3)).sum().backward()


@pytest.mark.parametrize("on", [on_gradscope, on_pytorch])
def test_buffers_have_their_names(on: Callable[[Any], Trace]) -> None:
    trace = on(a_model)
    tensors = {flow.tensor for flow in trace.once(Flows).all if flow.maker == NONE}

    named = {data.name for data in data_of(trace, tensors).values()}

    assert {"bn1.running_mean", "bn1.running_var", "scale", "bn1.weight"} <= named


def two_models(torch: Any) -> None:
    """Models whose buffers have the same names."""
    models = [torch.nn.BatchNorm1d(3) for _ in range(2)]
    for _ in range(2):
        x = torch.randn(4, 3)
        for model in models:
            x = model(x)
        x.sum().backward()


@pytest.mark.parametrize("on", [on_gradscope, on_pytorch])
def test_buffers_of_several_models_have_their_names(on: Callable[[Any], Trace]) -> None:
    trace = on(two_models)
    calls = trace.once(ForwardCalls)
    norms = [place for place, name in enumerate(calls.names) if "batch_norm" in name]
    names = dict(zip(trace.table(Tensor)["id"], trace.table(Tensor).texts("name"), strict=True))

    assert len(norms) == 4
    for place in norms:
        given = {names[tensor] for tensor in calls.inputs[place]}
        assert {"running_mean", "running_var", "weight", "bias"} <= given
