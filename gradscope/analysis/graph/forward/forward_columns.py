"""Selected calls and their data inputs, as columns of a graph.

Here a call is the tail and its input the head of an edge, as gradients flow, so that data is drawn
next to its users like leaves are. Pictures draw the arrows the other way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradscope.analysis.graph.columns import GraphColumns
from gradscope.analysis.graph.forward.calls import ForwardCalls
from gradscope.analysis.graph.forward.flows import Flow, Flows
from gradscope.analysis.graph.forward.select import SelectedCalls
from gradscope.analysis.identity.backwards import backward_numbers
from gradscope.analysis.lookups import Ids
from gradscope.analysis.ranks.whose import RankOf
from gradscope.trace.schema import NONE, Op
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class ForwardColumns:
    """Ids are the places of calls; those of data follow."""

    graph: GraphColumns
    data: dict[int, int]  # by id: the tensor
    flows: list[Flow]  # of selected calls, including creators that were not selected
    ids: list[tuple[int, int]]  # of each flow: the user and the creator; NONE: not selected


def forward_columns(trace: Trace, selected: SelectedCalls) -> ForwardColumns:
    """The selected calls, with all their inputs."""
    calls, flows = trace.once(ForwardCalls), trace.once(Flows)
    places, aside = selected.places, set(selected.aside.tolist())
    chosen = np.zeros(len(calls) + 1, bool)
    chosen[places] = True
    taken = [flows.all[at] for at in np.flatnonzero(chosen[flows.user]).tolist()]
    tensors = sorted({each.tensor for each in taken if each.maker == NONE or each.maker in aside})
    number = {tensor: len(calls) + at for at, tensor in enumerate(tensors)}
    ids = []
    for flow in taken:
        is_data = flow.maker == NONE or flow.maker in aside
        source = number[flow.tensor] if is_data else flow.maker if chosen[flow.maker] else NONE
        ids.append((flow.user, source))
    pairs = np.array(list(dict.fromkeys(ids)) or np.zeros((0, 2)), np.int64)
    hidden = np.zeros(len(calls) + 1, np.int64)
    np.add.at(hidden, pairs[pairs[:, 1] == NONE, 0], 1)
    leaving = chosen[flows.maker] & ~chosen[flows.user] & (flows.maker != NONE)
    np.add.at(hidden, flows.maker[leaving & ~np.isin(flows.user, selected.aside)], 1)
    pairs = pairs[pairs[:, 1] != NONE]
    id = np.concatenate([places, len(calls) + np.arange(len(tensors))]).astype(np.int64)
    return ForwardColumns(
        _columns(trace, calls, places, (id, pairs, hidden)),
        {each: tensor for tensor, each in number.items()},
        taken,
        ids,
    )


def _columns(
    trace: Trace, calls: ForwardCalls, places: Ids, of: tuple[Ids, Ids, Ids]
) -> GraphColumns:
    id, pairs, hidden = of
    more = len(id) - len(places)
    none, nothing = np.full(more, NONE, np.int64), np.zeros(more, np.int64)
    rows = calls.rows[places]
    ended = calls.end[places] != NONE
    took = np.where(ended, calls.end[places] - calls.begin[places], 0)
    numbers = backward_numbers(trace)
    made_in = [numbers.get(task, NONE) for task in calls.ops["task"][rows].tolist()]
    is_data = np.arange(len(id)) >= len(places)
    return GraphColumns(
        id=id,
        rank=np.arange(len(id)),
        name=np.concatenate([calls.ops["name"][rows], none]),
        stack=np.concatenate([calls.stack[places], none]),
        module=np.concatenate([calls.module[places], none]),
        step=np.concatenate([calls.ops["step"][rows], none]),
        made_in=np.concatenate([np.array(made_in, np.int64), none]),
        leaf=is_data,
        beside=is_data,
        own_ns=np.concatenate([took, nothing]),
        hidden=np.concatenate([hidden[places], nothing]),
        tail=np.searchsorted(id, pairs[:, 0]),
        head=np.searchsorted(id, pairs[:, 1]),
        whose=np.concatenate([trace.once(RankOf).of(Op.TABLE, calls.id[places]), none]),
    )
