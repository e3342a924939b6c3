"""What only gradscope has: keys of the user's own, and the path of every call in a trace."""

from __future__ import annotations

from typing import Any

import pytest

import gradscope.runtime as torch
from gradscope.record.recorder import record
from gradscope.runtime.core.dispatch.operators import snapshot
from gradscope.runtime.core.dispatch.operators.keys import DispatchKey
from gradscope.runtime.core.dispatch.operators.schema import parse_schema
from gradscope.runtime.core.state.thread import ThreadState
from gradscope.trace import schema
from gradscope.trace.spec import check


def paths(trace: Any) -> list[tuple[str, str]]:
    return [(op.name, op.path) for op in trace.table(schema.Op).rows()]


def test_a_full_trace_tells_the_path_of_every_call() -> None:
    x = torch.ones(3, requires_grad=True)
    with record(level="full") as recording:
        y = (x * 2).view(3)
        y.mul_(3)
        with torch.inference_mode():
            torch.ones(1) + 1
        y.sum().backward()

    trace = recording.trace()

    assert check(trace) == []
    found = dict(paths(trace))
    assert found["mul"] == "AutogradCPU CPU"
    assert found["view"] == found["mul_"] == "AutogradCPU ADInplaceOrView CPU"
    assert found["add"] == "CPU"
    assert all(path for _, path in paths(trace))
    assert ThreadState.routes is None  # nobody looks at paths any more


def test_below_full_no_path_is_recorded() -> None:
    with record() as recording:
        torch.ones(2) * 2

    assert paths(recording.trace()) == [("mul", "")]


@pytest.fixture
def logging_key() -> Any:
    key = DispatchKey.named.get("TestLogging")
    return key or torch.library.define_key("TestLogging", above="AutogradCPU")


def test_a_key_of_the_users_own_is_there_again_after_a_script(logging_key: Any) -> None:
    before = snapshot.kept()
    snapshot.put_back(None)
    inside = "TestLogging" in DispatchKey.named
    snapshot.put_back(before)

    assert not inside
    assert DispatchKey.named["TestLogging"] is logging_key
    assert logging_key in DispatchKey.order


def test_a_key_of_the_users_own_sees_calls_while_it_is_included(logging_key: Any) -> None:
    library = torch.library.Library("_", "IMPL")
    seen: list[str] = []

    def log(op: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(str(op))
        with torch.library.left_out(logging_key):
            return op(*args, **kwargs)

    library.fallback(log, "TestLogging")
    x = torch.ones(2, requires_grad=True)
    with record(level="full") as recording:
        outside = x * 2
        with torch.library.included(logging_key):
            inside = (x * 2).exp()
    library._destroy()

    assert seen == ["aten.mul.Tensor", "aten.exp.default"]
    assert type(inside.grad_fn).__name__ == "ExpBackward0"
    assert torch.equal(outside.exp(), inside)
    assert check(recording.trace()) == []
    assert ThreadState.routes is None


def test_a_kernel_that_redispatches_is_on_the_path(logging_key: Any) -> None:
    library = torch.library.Library("_", "IMPL")

    def down(keys: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
        return op.redispatch(keys.remove(logging_key), *args, **kwargs)

    library.fallback(down, "TestLogging", with_keyset=True)
    x = torch.ones(2, requires_grad=True)
    with record(level="full") as recording, torch.library.included(logging_key):
        made = x.exp()
    library._destroy()

    assert type(made.grad_fn).__name__ == "ExpBackward0"
    assert paths(recording.trace()) == [("exp", "TestLogging AutogradCPU CPU")]


def test_unregistered_keys_are_not_met(logging_key: Any) -> None:
    with torch.library.included(logging_key):
        assert (torch.ones(1) + 1).item() == 2.0


def test_switches_are_put_back_when_a_block_raises(logging_key: Any) -> None:
    with pytest.raises(ZeroDivisionError), torch.library.included(logging_key):
        assert torch._C._dispatch_tls_local_include_set().has("TestLogging")
        raise ZeroDivisionError

    assert not torch._C._dispatch_tls_local_include_set()


def test_a_simulated_device_has_its_own_kernel() -> None:
    library = torch.library.Library("gradscope_sim", "DEF")
    library.define("where(Tensor x) -> Tensor")
    library.impl("where", lambda x: x * 0, "CPU")
    library.impl("where", lambda x: x * 0 + 1, "Sim")

    places = [torch.ops.gradscope_sim.where(torch.ones(1, device=d)).item() for d in ("cpu", "sim")]
    library._destroy()

    assert places == [0.0, 1.0]


@pytest.mark.parametrize(
    "text",
    [
        "foo(Tensor x) -> Tensor",
        "ns::foo.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
        'foo(Tensor(a) x, int[2] n=[1, 2], str s="a, b") -> Tensor(a)',
        "foo() -> (Tensor a, Tensor b)",
        "foo(Tensor? x=None, float eps=1e-05, ScalarType? dtype=None) -> ()",
        "foo(Tensor?[] xs, Tensor(a!)[] outs) -> Tensor[]",
    ],
)  # fmt: skip
def test_a_schema_is_written_as_it_was_read(text: str) -> None:
    assert str(parse_schema(text)) == text


def test_the_table_of_an_operator_names_what_runs_at_each_key() -> None:
    library = torch.library.Library("gradscope_table", "DEF")
    library.define("foo(Tensor x) -> Tensor")
    library.impl("foo", lambda x: x, "CPU")

    lines = torch._C._dispatch_dump_table("gradscope_table::foo").splitlines()
    library._destroy()

    assert [line for line in lines if line.startswith("CPU: registered at ")]
    assert "Meta: missing" in lines
    assert "ADInplaceOrView: fallthrough" in lines
