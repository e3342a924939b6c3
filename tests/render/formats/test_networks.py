"""The whole graph in other programs' formats: what they read back is what the trace holds."""

from __future__ import annotations

import io
from typing import Any

import networkx as nx
import pytest

import gradscope
from gradscope.analysis.graph.selection import Selection
from gradscope.errors import EmptyTraceError, UsageError
from gradscope.render.formats import format_called
from gradscope.render.pictures import render
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.network import network, to_networkx
from gradscope.trace.schema import Node, Op, Thread
from tests.render.hostile import NAMES, named
from tests.shared.by_hand import trace_of
from tests.shared.example_traces import mean_of_squares, two_layers


def written(trace: Any, name: str, selection: Selection | None = None) -> io.BytesIO:
    return io.BytesIO(format_called(name).write(network(trace, selection), None).content)


def test_networkx_is_given_all_nodes_and_edges_with_what_is_known_of_each() -> None:
    graph = gradscope.to_networkx(mean_of_squares())

    assert graph.is_directed()
    assert nx.is_directed_acyclic_graph(graph)
    names = {data["title"]: id for id, data in graph.nodes(data=True)}
    mean, leaf = names["MeanBackward0"], names["AccumulateGrad"]
    assert nx.has_path(graph, mean, leaf)
    assert graph.nodes[leaf] == {
        "name": "AccumulateGrad",
        "title": "AccumulateGrad",
        "kind": "leaf",
        "leaf": "x",
        "shape": "[2, 2] float32",
        "runs": 1,
        "own_ns": 5_000,
        "saved_bytes": 0,
    }
    assert graph.nodes[mean]["line"] == 6
    assert graph.nodes[mean]["operation"] == "mean.Tensor"
    assert graph.nodes[names["MulBackward0#1"]]["saved_bytes"] == 32
    assert graph.edges[names["MulBackward0#1"], names["AddBackward0"], 1] == {
        "output": 1,
        "input": 0,
        "shape": "[2, 2] float32",
    }


def test_a_part_is_chosen_as_for_pictures() -> None:
    whole, part = (
        to_networkx(two_layers()),
        to_networkx(two_layers(), around="MeanBackward0", hops=1),
    )

    assert 0 < len(part) < len(whole)
    assert set(part.edges(keys=True)) <= set(whole.edges(keys=True))
    assert {key: part.nodes[key] for key in part} == {key: whole.nodes[key] for key in part}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("format", "read"), [("graphml", nx.read_graphml), ("gexf", nx.read_gexf)])
def test_networkx_reads_back_the_same_graph_whatever_a_program_names(
    format: str, read: Any, name: str
) -> None:
    trace = named(name)
    sent = to_networkx(trace)

    found = nx.relabel_nodes(read(written(trace, format)), int)

    assert set(found) == set(sent)
    assert sorted((a, b) for a, b, *_ in found.edges) == sorted((a, b) for a, b, *_ in sent.edges)
    for node, data in sent.nodes(data=True):
        back = found.nodes[node]
        assert {key: back[key] for key in data if key != "leaf" or key in back} == data


def test_a_file_of_gephi_does_not_say_when_it_was_written() -> None:
    assert b"lastmodified" not in written(two_layers(), "gexf").getvalue()


def test_what_only_a_picture_has_is_refused(tmp_path: Any) -> None:
    with pytest.raises(UsageError, match="it supports only --step, --task, --around"):
        render(two_layers(), tmp_path / "t.graphml", options=GraphOptions(limit=5))


def test_a_trace_without_nodes_is_refused(tmp_path: Any) -> None:
    with pytest.raises(EmptyTraceError, match="holds no backward nodes"):
        render(trace_of(Thread(0), Op(0, "mul")), tmp_path / "t.tfevents")


def test_what_was_not_recorded_is_not_said() -> None:
    (data,) = dict(to_networkx(trace_of(Node(0, "MulBackward0"))).nodes(data=True)).values()

    assert "runs" not in data
    assert "own_ns" not in data
    assert "module" not in data
