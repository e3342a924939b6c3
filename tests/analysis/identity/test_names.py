from __future__ import annotations

import pytest

from gradscope.analysis.identity.leaves import variable_of
from gradscope.analysis.identity.names import find_nodes, node_names
from gradscope.errors import UnknownNameError
from gradscope.trace.schema import Frame, Module, Node, Op, Stack, Tensor
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of
from tests.shared.example_traces import mean_of_squares, shared_weight, two_layers


def names_of(trace: Trace) -> list[str]:
    names = node_names(trace)
    return [names.of(node.id) for node in trace.rows(Node)]


def test_nodes_of_one_name_are_numbered_in_the_order_of_the_trace() -> None:
    trace = trace_of(Node(0, "Mul"), Node(1, "Add"), Node(2, "Mul"), Node(3, "Mul"))

    assert names_of(trace) == ["Mul#1", "Add", "Mul#2", "Mul#3"]


def test_a_node_that_the_trace_does_not_hold_is_called_by_its_id() -> None:
    assert node_names(trace_of()).title(7) == "node 7"


def test_the_title_of_a_leafs_node_says_whose_gradient_it_is() -> None:
    trace = shared_weight(2)

    titles = [node_names(trace).title(node.id) for node in trace.rows(Node)]

    assert "AccumulateGrad (w)" in titles
    assert "AccumulateGrad (h0)" in titles


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("2", (2,)),
        ("MulBackward0#2", (3,)),
        ("MulBackward0", (2, 3)),
        ("MeanBackward0", (4,)),
        ("x", (1,)),
        ("ex.py:5", (2, 3)),
    ],
)
def test_a_node_is_found_by_its_id_name_leaf_and_source_line(
    wanted: str, found: tuple[int, ...]
) -> None:
    trace = mean_of_squares()

    assert find_nodes(trace, wanted) == found


def test_nodes_are_found_by_their_module_and_those_inside_it() -> None:
    trace = two_layers()
    modules = {module.path: module.id for module in trace.rows(Module)}
    inside = {modules["layers1"], modules["layers1.linear"]}

    found = find_nodes(trace, "layers1")

    assert found == tuple(node.id for node in trace.rows(Node) if node.module in inside)
    assert len(found) == 3


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (
            "MulBakward0",
            "is called 'MulBakward0': did you mean MulBackward0#1 … #2, MeanBackward0, Add",
        ),
        ("MulBackward0#9", "called 'MulBackward0#9': did you mean MulBackward0#1 … #2"),
        ("MulBackward0#0", "did you mean MulBackward0#1 … #2"),
        ("99", "no node has the id 99: the nodes of this trace are 0 to 4"),
        ("mean", "did you mean MeanBackward0?"),
        ("§", "pictures, the page and `gradscope timeline` show the names"),
        ("²", "pictures, the page and `gradscope timeline` show the names"),
    ],
)
def test_a_name_that_is_not_there_is_answered_with_those_near_it(wanted: str, message: str) -> None:
    with pytest.raises(UnknownNameError) as raised:
        find_nodes(mean_of_squares(), wanted)

    assert message in str(raised.value)


def test_a_trace_without_nodes_says_so() -> None:
    with pytest.raises(UnknownNameError, match="this trace holds no nodes"):
        find_nodes(trace_of(), "x")


@pytest.mark.parametrize(
    ("source", "called", "name"),
    [
        ("x = torch.ones(2, 2)", "ones", "x"),
        ("    weight = torch.randn(3, requires_grad=True)  # start", "randn", "weight"),
        ("w = ones(2)", "ones", "w"),
        ("x = torch.ones(2) * 3", "ones", ""),  # x is the product
        ("x, y = torch.ones(2), torch.ones(2)", "ones", ""),
        ("loss = f(torch.ones(2))", "ones", ""),
        ("self.w = torch.ones(2)", "ones", ""),
        ("x = torch.ones(", "ones", ""),
        ("x = '\0'", "ones", ""),
        ("(" * 5_000, "ones", ""),
        ("", "ones", ""),
    ],
)
def test_a_leaf_is_named_after_its_variable_only_where_that_is_certain(
    source: str, called: str, name: str
) -> None:
    assert variable_of(source, called) == name


def test_a_leaf_without_a_name_gets_that_of_the_variable_it_was_assigned_to() -> None:
    trace = trace_of(
        Frame(0, "a.py", 1, "<module>", "x = torch.ones(2)"),
        Stack(0, 0),
        Op(0, "ones.default", stack=0),
        Tensor(0, leaf=True, op=0),
        Node(0, "AccumulateGrad", inputs=(0,)),
    )

    assert node_names(trace).title(0) == "AccumulateGrad (x)"
    assert find_nodes(trace, "x") == (0,)


def test_a_module_is_meant_by_the_end_of_its_path_if_no_other_ends_so() -> None:
    trace = trace_of(
        *(Module(n, f"bert.layer.{n}.attention", "Attention") for n in range(2)),
        Module(2, "bert.layer.1.attention.out", "Linear"),
        *(Node(n, name, module=n) for n, name in enumerate("ABC")),
    )

    assert find_nodes(trace, "layer.1.attention") == find_nodes(trace, "…1.attention") == (1, 2)
    with pytest.raises(UnknownNameError, match=r"did you mean bert\.layer\.\d\.attention, bert"):
        find_nodes(trace, "attention")


def test_of_two_models_a_module_is_meant_by_its_path_or_by_its_model_and_path() -> None:
    trace = trace_of(
        Module(0, "", "Generator"),
        Module(1, "0", "Linear", parent=0),
        Module(2, "", "Critic"),
        Module(3, "0", "Linear", parent=2),
        Node(0, "A", module=1),
        Node(1, "B", module=3),
    )

    assert find_nodes(trace, "0") == (0,)  # an id comes first
    assert find_nodes(trace, "Critic.0") == find_nodes(trace, "Critic") == (1,)


def test_a_number_is_an_id_only_though_a_module_is_called_so() -> None:
    trace = trace_of(
        Module(0, "", "Net"), Module(1, "3", "Linear", parent=0), Node(7, "A", module=1)
    )

    with pytest.raises(UnknownNameError, match=r"no node has the id 3: .* are 7 to 7"):
        find_nodes(trace, "3")
