"""Rules 7 to 9: what nodes keep for backward, and the hooks it goes through."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from gradscope.trace import schema
from gradscope.trace.schema.events import HookKind
from gradscope.trace.trace import Trace
from tests.runtime.both import function, leaf, raises
from tests.runtime.rules.conftest import Seen
from tests.runtime.rules.looks import errors, hooked, names_in, ran, saved_by

FREED = "Trying to backward through the graph a second time"


def packing(trace: Trace) -> list[str]:
    """The pack and unpack hooks that returned, in order."""
    return [kind for kind, _ in hooked(trace) if kind in ("PACK", "UNPACK")]


@pytest.mark.rule(7)
def test_a_saved_input_is_the_same_object_and_a_saved_output_another_with_the_same_history(
    torch: Any, seen: Seen
) -> None:
    x, w = leaf(torch, 3.0), leaf(torch, 5.0)
    y = x * 1
    product = y * w
    assert (product.grad_fn._saved_self is y, product.grad_fn._saved_other is w) == (True, True)

    z = y.exp()
    saved = z.grad_fn._saved_result
    assert (saved is z, saved.grad_fn is z.grad_fn, saved.output_nr) == (False, True, 0)
    assert (saved._version, saved.data_ptr()) == (z._version, z.data_ptr())
    with torch.no_grad():
        z.detach().add_(0)
    assert saved._version == z._version == 1  # one counter for both

    # So that nothing cycles: what is let go of is gone at once, without the garbage collector.
    gc.collect()
    gc.disable()
    try:
        result = (x * 2).exp()
        held = weakref.ref(result)
        del result
        assert held() is None
    finally:
        gc.enable()

    def shows(trace: Trace) -> bool:
        outputs = {o: op.node for op in trace.rows(schema.Op) for o in op.outputs}
        kept = {name: [(row.slot, outputs.get(row.tensor) == row.node)
                       for row in saved_by(trace, name)]
                for name in ("MulBackward0", "ExpBackward0")}  # fmt: skip
        return (
            ("self", False) in kept["MulBackward0"]
            and ("other", False) in kept["MulBackward0"]
            and kept["ExpBackward0"] == [("result", True)] * 2
        )

    seen(shows)


@pytest.mark.rule(8)
def test_a_second_backward_raises_only_where_something_was_saved(torch: Any, seen: Seen) -> None:
    x = leaf(torch, 3.0)
    total = (x + x).sum()
    total.backward()
    total.backward()
    assert x.grad.tolist() == [4.0]

    squared = (x * x).sum()
    squared.backward()
    assert raises(RuntimeError, squared.backward).startswith(FREED)
    assert raises(
        RuntimeError, lambda: squared.grad_fn.next_functions[0][0]._saved_self
    ).startswith(FREED)
    kept = (x * x).sum()
    kept.backward(retain_graph=True)
    kept.backward()

    # ctx.saved_tensors can be read again during backward, and raises afterwards.
    read: list[Any] = []

    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2

    def backward(ctx: Any, grad: Any) -> Any:
        read.extend([ctx.saved_tensors[0] is x, ctx.saved_tensors[0] is x])
        return grad

    mine = function(torch, forward, backward).apply(x)
    node = mine.grad_fn
    assert node.saved_tensors[0] is x
    mine.backward()
    assert read == [True, True]
    assert raises(RuntimeError, lambda: node.saved_tensors).startswith(FREED)
    assert raises(RuntimeError, mine.backward).startswith(FREED)

    def shows(trace: Trace) -> bool:
        known = names_in(trace)
        released = [known[event.node] for event in trace.events(schema.SavedReleased)]
        failed = [(name, text[: len(FREED)]) for name, _, text in errors(trace)]
        return (
            released == ["MulBackward0", "MulBackward0", "MineBackward"]
            and failed == [("MulBackward0", FREED), ("MineBackward", FREED)]
            and ran(trace)[:3] == ["SumBackward0", "AddBackward0", "AccumulateGrad"]
        )

    seen(shows)


@pytest.mark.rule(9)
def test_hooks_pack_each_saved_value_once_and_only_the_innermost_pair_does(
    torch: Any, seen: Seen
) -> None:
    log: list[Any] = []

    def hooks(name: str) -> Any:
        def pack(tensor: Any) -> Any:
            log.append((name, "pack", tensor.tolist(), torch.is_grad_enabled()))
            return tensor.detach()

        def unpack(packed: Any) -> Any:
            log.append((name, "unpack", packed.tolist()))
            return packed

        return torch.autograd.graph.saved_tensors_hooks(pack, unpack)

    x, w = leaf(torch, 2.0), leaf(torch, 5.0)
    with hooks("outer"), hooks("inner"):
        product = x * w
    with hooks("outer"):
        result = product.tanh()
    assert log == [
        ("inner", "pack", [5.0], False), ("inner", "pack", [2.0], False),
        ("outer", "pack", result.tolist(), False),
    ]  # fmt: skip

    # In backward what was packed is unpacked; what a double backward saves is packed again.
    log.clear()
    with hooks("second"):
        (first,) = torch.autograd.grad(result, x, create_graph=True)
    unpacked = [(name, kind) for name, kind, *_ in log if kind == "unpack"]
    assert unpacked == [("outer", "unpack"), ("inner", "unpack"), ("inner", "unpack")]
    assert {name for name, kind, *_ in log if kind == "pack"} == {"second"}
    packed = [line for line in log if line[1] == "pack"]
    assert len(packed) == len({id(line) for line in packed})
    log.clear()
    first.backward()
    assert "second" in {name for name, kind, *_ in log if kind == "unpack"}

    def shows(trace: Trace) -> bool:
        kinds = packing(trace)
        known = names_in(trace)
        packed_values = [row for row in trace.rows(schema.Saved) if row.hooked]
        runs = [
            (HookKind(e.hook).name, known.get(e.node, "")) for e in trace.events(schema.HookBegin)
        ]
        return (
            kinds[:3] == ["PACK"] * 3
            and kinds.count("PACK") == len(packed_values)
            and ("UNPACK", "TanhBackward0") in runs
            and ("UNPACK", "MulBackward0") in runs
        )

    seen(shows)


@pytest.mark.rule(9)
def test_hooks_are_registered_once_on_a_saved_value_and_must_give_back_a_tensor(
    torch: Any, seen: Seen
) -> None:
    x, w = leaf(torch, 2.0), torch.ones(1, dtype=torch.float64)
    product = x * w
    raw = product.grad_fn._raw_saved_other
    raw.register_hooks(lambda t: t * 10, lambda t: t)
    twice = "Calling register_hooks on a saved tensor whose hooks have already been set."
    same = (lambda t: t, lambda t: t)
    assert raises(RuntimeError, lambda: raw.register_hooks(*same)).startswith(twice)
    assert raises(RuntimeError, lambda: product.grad_fn._raw_saved_self.register_hooks(*same)) == (
        "Calling register_hooks on a saved tensor with value None is forbidden"
    )
    product.backward()
    assert x.grad.tolist() == [10.0]
    assert raises(RuntimeError, lambda: raw.register_hooks(*same)).startswith(
        "Calling register_hooks on a saved tensor after it has been freed."
    )

    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: "no tensor"):
        y = x.exp()
    assert raises(TypeError, y.backward) == (
        "Output of saved tensor unpack_hook expected to be a Tensor but got result of type str"
    )
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.mul_(2), lambda t: t):
        assert raises(RuntimeError, (x * 1).exp).startswith(
            "A saved tensor pack hook is modifying its input in place."
        )

    def shows(trace: Trace) -> bool:
        return packing(trace) == ["PACK", "UNPACK", "PACK", "UNPACK", "PACK"] and [
            name for name, _, _ in errors(trace)
        ] == ["ExpBackward0"]

    seen(shows)


@pytest.mark.rule(9)
def test_hooks_can_be_disabled_and_the_messages_nest(torch: Any, seen: Seen) -> None:
    graph = torch.autograd.graph

    def enter() -> None:
        with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            pass

    with graph.disable_saved_tensors_hooks("outer"):
        with graph.disable_saved_tensors_hooks("inner"):
            assert raises(RuntimeError, enter) == "inner"
        assert raises(RuntimeError, enter) == "outer"
        assert raises(RuntimeError, graph.save_on_cpu().__enter__) == "outer"
        assert raises(RuntimeError, graph.allow_mutation_on_saved_tensors().__enter__) == "outer"
    enter()
    with pytest.raises(ZeroDivisionError), graph.disable_saved_tensors_hooks("gone"):
        1 / 0  # noqa: B018
    enter()
    x = leaf(torch, 2.0)
    with graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):
        disabling = graph.disable_saved_tensors_hooks("refused")
        assert raises(RuntimeError, disabling.__enter__) == "refused"
        y = x.exp()
    y.backward()

    def shows(trace: Trace) -> bool:
        return packing(trace) == ["PACK", "UNPACK"] and errors(trace) == []

    seen(shows)
