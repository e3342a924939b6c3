"""Rules about outputs and states of recurrent layers."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.program.acts import Origins, TensorOrigin
from gradscope.analysis.program.calls import Calls
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.rules.structure.losses import READS
from gradscope.analysis.source.functions import last_name, parsed
from gradscope.trace.schema import NONE, GraphTask, Module
from gradscope.trace.trace import Trace

LAYERS = frozenset(("RNN", "GRU", "LSTM"))
LAST = -1
CELLS = frozenset(("RNNCell", "GRUCell", "LSTMCell"))
ZEROS = frozenset(("zeros", "zeros_like", "new_zeros"))
BATCH_FIRST = 4
"""With fewer positional arguments, `batch_first` has its default."""


@rule("GS717", "last-of-the-batch", reads=(*READS, "node.arguments"))
def last_of_the_batch(trace: Trace) -> Iterator[Found]:
    """The last sample of a recurrent layer's output was taken instead of the last step.

    Without `batch_first=True` the output is (steps, batch, features), and `out[:, -1]` is the last
    sample. With `batch_first=True`, `out[-1]` is the last sample. If the data have the other order,
    steps are treated as samples.

    Bad:
        rnn, head = torch.nn.LSTM(3, 4), torch.nn.Linear(4, 1)
        batch_of_five = torch.arange(30.0).reshape(5, 2, 3) / 30
        out, _ = rnn(batch_of_five)
        head(out[:, -1]).pow(2).mean().backward()

    Good:
        rnn, head = torch.nn.LSTM(3, 4, batch_first=True), torch.nn.Linear(4, 1)
        batch_of_five = torch.arange(30.0).reshape(5, 2, 3) / 30
        out, _ = rnn(batch_of_five)
        head(out[:, -1]).pow(2).mean().backward()
    """
    calls = trace.once(Calls)
    for few, times in calls.few_of_each_line(calls.with_tensors("select")):
        for at in few:
            found = _of_the_batch(calls, at) if calls.given(at).get("index") == LAST else None
            if found is not None and calls.trained_users(calls.outputs(at)[0]):
                yield _found(calls, at, found, times)
                break


def _of_the_batch(calls: Calls, at: int) -> tuple[str, bool, int, int] | None:
    """The layer's type, whether its batch is first, its steps and samples; None if it is right."""
    (dim,) = calls.dims(at) or (NONE,)
    maker = calls.maker(calls.inputs(at)[0])
    layer = calls.module(maker) if maker != NONE else None
    if dim not in (0, 1) or layer is None or layer.type not in LAYERS:
        return None
    own = calls.module(at)
    if own is not None and own.id == layer.id:
        return None
    first = _has_batch_first(calls, layer.parameters)
    shape = calls.shape(calls.inputs(at)[0])
    if len(shape) != 3 or first is None:
        return None
    turned = calls.name(maker) == "transpose"  # else the batch is second, as computed
    steps, samples = (shape[1], shape[0]) if turned else (shape[0], shape[1])
    if turned and not first:
        return None
    if first and not turned and steps == _states(calls, layer.parameters):
        return None  # the last state of the last layer
    return (layer.type, first, steps, samples) if dim == (0 if first else 1) else None


def _states(calls: Calls, parameters: tuple[int, ...]) -> int:
    """The number of states that the layer returns: one per layer and direction.

    Each has a matrix for its input and one for the state before, and may have a projection.
    """
    matrices = [each for each in parameters if len(calls.shape(each)) == 2]
    rows = calls.shape(matrices[0])[0] if matrices else 0
    return sum(calls.shape(each)[0] == rows for each in matrices) // 2


def _has_batch_first(calls: Calls, parameters: tuple[int, ...]) -> bool | None:
    """As in the line that created the layer; None if the line does not show it."""
    origins = calls.trace.once(Origins)
    made = [origin for each in parameters if (origin := origins.of(each)) is not None]
    called = [*_layers_made(made[0].site.text)] if made else []
    if len(called) != 1 or any(each.arg is None for each in called[0].keywords):
        return None
    given = [each.value for each in called[0].keywords if each.arg == "batch_first"]
    if not given:
        return False if len(called[0].args) < BATCH_FIRST else None
    return bool(given[0].value) if isinstance(given[0], ast.Constant) else None


def _layers_made(line: str) -> Iterator[ast.Call]:
    """The calls in a line that create recurrent layers; none if it is not a whole statement."""
    tree = parsed(line.strip())
    for each in ast.walk(tree) if tree is not None else ():
        if isinstance(each, ast.Call) and last_name(each.func) in LAYERS:
            yield each


def _found(calls: Calls, at: int, found: tuple[str, bool, int, int], times: int) -> Found:
    (type, first, steps, samples), site = found, calls.site(at)
    again = f"; the line ran {times:,} times" if times > 1 else ""
    shape = f"({samples}, {steps}, …)" if first else f"({steps}, {samples}, …)"
    there = "batch first" if first else "steps first"
    return Found(
        message=f"The last sample of the batch is taken from the {type}'s output at {site}, "
        f"instead of the last step: wrong dim{again}",
        site=site,
        evidence=(Evidence("op", calls.id(at)),),
        why=f"the layer was created with batch_first={first}, so its output is {shape}, {there}; "
        f"index -1 of dim {0 if first else 1} is one of {samples} samples, with all {steps} "
        "steps",
        fix="use `out[:, -1]`"
        if first
        else "use `out[-1]`; or, if data are (batch, steps, "
        "features), create the layer with batch_first=True",
        certainty=Certainty.INFERRED,
    )


@rule("GS725", "state-reset", reads=(*READS, "act"))
def state_reset(trace: Trace) -> Iterator[Found]:
    """A recurrent cell gets zeros as its state in every call: it remembers nothing.

    The state is created inside the loop over the steps, or not passed at all.

    Bad:
        cell, head = torch.nn.GRUCell(3, 4), torch.nn.Linear(4, 1)
        series = torch.arange(30.0).reshape(5, 2, 3) / 30
        loss = 0
        for x in series:
            state = cell(x, torch.zeros(2, 4))
            loss = loss + head(state).pow(2).mean()
        loss.backward()

    Good:
        cell, head = torch.nn.GRUCell(3, 4), torch.nn.Linear(4, 1)
        series = torch.arange(30.0).reshape(5, 2, 3) / 30
        loss, state = 0, torch.zeros(2, 4)
        for x in series:
            state = cell(x, state)
            loss = loss + head(state).pow(2).mean()
        loss.backward()
    """
    calls, origins = trace.once(Calls), trace.once(Origins)
    cells = [each.id for each in trace.rows(Module) if each.type in CELLS]
    products: dict[int, list[int]] = defaultdict(list)  # by cell; each call of one makes two
    if cells:
        places = calls.with_tensors("addmm", "mm")
        its = np.isin(calls.ops["module"][places], cells) & (calls.ops["node"][places] != NONE)
        for at in places[its].tolist():
            products[int(calls.ops["module"][at])].append(at)
    backwards = max(len(trace.table(GraphTask)), 1)
    for several in products.values():
        zeros: list[tuple[int, TensorOrigin]] = []
        for at in several:
            module = calls.module(at)
            own = (module.path.rpartition(".")[2], module.name) if module is not None else ()
            made = (origins.of(each) for each in calls.inputs(at))
            zeros += [
                (at, each)
                for each in made  # a cell without a state creates zeros itself
                if each is not None and (each.by in ZEROS or (each.by and each.by in own))
            ][:1]
        if 2 * len(zeros) == len(several) and len(zeros) >= FEW * backwards:
            yield _reset(calls, zeros)


FEW = 3
"""Least number of calls for each backward that count as steps of a sequence."""


def _reset(calls: Calls, zeros: list[tuple[int, TensorOrigin]]) -> Found:
    (at, origin), many = zeros[0], len(zeros)
    site, called = origin.site, calls.site(at)
    again, made = (f", called at {called},", f"created at {site}") if called != site else ("", "")
    made = made or f"as no state is passed at {site}"
    return Found(
        message=f"The state{calls.where(at)}{again} is zeros in each of its {many:,} calls, "
        f"{made}: it remembers nothing",
        site=site,
        evidence=(Evidence("op", calls.id(at)), Evidence("act", origin.act.id)),
        why="a recurrent cell knows earlier steps only from its state; its recurrent weights get "
        "no gradient, since they are multiplied by zeros",
        fix="create the state once, before the loop over the steps, and pass each call the result "
        "of the one before: `state = cell(x, state)`",
        certainty=Certainty.INFERRED,
    )
