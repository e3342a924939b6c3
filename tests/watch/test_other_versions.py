"""What other versions of PyTorch lack, or do in another way, imitated on this one."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

from gradscope.trace.schema import Node, NodeBegin, Place, Value
from tests.record.from_pytorch.watching import recorded

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("version", "said"),
    [("2.10.0+cu128", "(True)."), ("2.11.0", "(True, check_nan=False)."),
     ("2.4.1", "(True)."), ("3.0.0a0+git1234567", "(True, check_nan=False).")],
)  # fmt: skip
def test_the_hint_of_an_error_is_that_of_the_version(version: str, said: str) -> None:
    from gradscope.watch.watched_engine import hint

    assert hint(version).endswith(f"with torch.autograd.set_detect_anomaly{said}")


def test_the_hint_is_what_this_version_says_itself() -> None:
    import torch

    def program() -> str:
        x = torch.ones(2, requires_grad=True).exp()
        y = x.exp()
        y.mul_(2)
        with pytest.raises(RuntimeError) as error:
            y.sum().backward()
        return str(error.value)

    assert recorded(program, "graph")[0] == program()


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="torch.jit does not support it")
@pytest.mark.filterwarnings("ignore:.torch.jit")
@pytest.mark.parametrize("level", ["graph", "full"])
def test_a_traced_module_is_traced_alike_twice(level: str) -> None:
    """Our looks at its parameters were recorded in the first trace and not in the second."""
    import torch

    def program() -> Any:
        net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
        graph = torch.jit.trace(net, torch.ones(3, 4)).inlined_graph
        return re.sub(r"___torch_mangle_\d+\.", "", str(graph))

    assert recorded(program, level)[0] == program()


@pytest.mark.parametrize("level", ["graph", "full"])
def test_where_nodes_do_not_say_what_they_take_the_rest_is_recorded(
    monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    """PyTorch 2.4, for which there is no machine code either."""
    import torch

    from gradscope.watch import python_walk, unseen

    monkeypatch.setattr(python_walk, "SHOWS_INPUTS", False)
    monkeypatch.setattr(unseen, "LISTED", ())

    def program() -> None:
        x = torch.ones(4, requires_grad=True)
        first, second = x.exp().split([1, 3])
        (first + second).sum().backward()

    _, trace = recorded(program, level)
    assert len(trace.table(Node)) == 5
    assert level == "graph" or len(trace.table(NodeBegin)) == 5
    assert trace.meta["not_shown"] == ["shapes, dtypes and devices of results"]
    assert trace.notes == ()
    assert [note for note in trace.notes if "_input_metadata" in note] == []


@pytest.mark.parametrize("error", [AttributeError("_name"), TypeError("_name"), KeyError("_name")])
def test_machine_code_that_misses_a_name_says_so_in_plain_words(error: Exception) -> None:
    from gradscope.watch.unseen import in_words

    assert in_words(error).startswith("gradscope has no machine code for PyTorch ")


@pytest.mark.parametrize("missing", ["callbacks.around", "devices.asked.AskedByMachineCode"])
def test_where_values_cannot_be_read_by_machine_code_nothing_fails(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    import torch

    from gradscope.watch.values.devices.asked import NoAlias

    def fails(*_: Any) -> None:
        raise NoAlias("a function is missing")

    def program() -> None:
        w = torch.ones(2, requires_grad=True)
        (w * 3).sum().backward()

    monkeypatch.setattr(f"gradscope.watch.values.{missing}", fails)
    trace = recorded(program, "values")[1]

    assert "unseen" not in trace.meta
    assert any(row.place == Place.GRAD and row.norm > 4 for row in trace.rows(Value))
