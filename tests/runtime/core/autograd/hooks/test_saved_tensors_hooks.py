"""Hooks on what is saved for backward."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.both import function, leaf, raises


def hooks(torch: Any, log: list[str]) -> Any:
    def pack(tensor: Any) -> Any:
        log.append(f"pack {tensor.tolist()}")
        return tensor.tolist(), tensor

    def unpack(packed: Any) -> Any:
        log.append(f"unpack {packed[0]}")
        return packed[1]

    return torch.autograd.graph.saved_tensors_hooks(pack, unpack)


def test_packed_once_when_saved_and_unpacked_when_needed(torch: Any) -> None:
    log: list[str] = []
    x, w = leaf(torch, 3.0), leaf(torch, 5.0)
    with hooks(torch, log):
        y = x * w
    assert sorted(log) == ["pack [3.0]", "pack [5.0]"]
    y.backward()

    assert sorted(log[2:]) == ["unpack [3.0]", "unpack [5.0]"]
    assert (x.grad.tolist(), w.grad.tolist()) == ([5.0], [3.0])


def test_outputs_are_packed_too(torch: Any) -> None:
    log: list[str] = []
    x = leaf(torch, 0.0)
    with hooks(torch, log):
        y = x.exp()
    y.backward()

    assert log == ["pack [1.0]", "unpack [1.0]"]
    assert x.grad.tolist() == [1.0]


def test_what_was_saved_outside_is_left_alone(torch: Any) -> None:
    log: list[str] = []
    x = leaf(torch, 3.0)
    y = x * x
    with hooks(torch, log):
        y.backward()

    assert log == []


def test_only_the_innermost_pair_is_used(torch: Any) -> None:
    outer: list[str] = []
    inner: list[str] = []
    x = leaf(torch, 0.0)
    with hooks(torch, outer), hooks(torch, inner):
        x.exp()

    assert (outer, inner) == ([], ["pack [1.0]"])


def test_what_the_hook_gives_back_is_what_backward_sees(torch: Any) -> None:
    x = leaf(torch, 3.0)
    double = torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t * 2)
    with double:
        y = x * x
    y.backward()

    assert x.grad.tolist() == [12.0]


def test_custom_functions_save_through_the_hooks(torch: Any) -> None:
    log: list[str] = []

    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    x = leaf(torch, 3.0)
    with hooks(torch, log):
        y = function(torch, forward, lambda ctx, g: g * 2 * ctx.saved_tensors[0]).apply(x)
    y.backward()

    assert log == ["pack [3.0]", "unpack [3.0]"]
    assert x.grad.tolist() == [6.0]


def test_double_backward_packs_what_it_saves(torch: Any) -> None:
    log: list[str] = []
    x = leaf(torch, 0.0)
    y = x.exp()
    with hooks(torch, log):
        (first,) = torch.autograd.grad(y, x, create_graph=True)
    packed = [line for line in log if line.startswith("pack")]
    first.backward()

    assert packed
    assert x.grad.tolist() == [1.0]


def test_second_derivatives_through_hooks(torch: Any) -> None:
    x = leaf(torch, 2.0)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        y = x * x * x
        (first,) = torch.autograd.grad(y, x, create_graph=True)
        (second,) = torch.autograd.grad(first, x)

    assert (first.tolist(), second.tolist()) == ([12.0], [12.0])


def test_an_unpacked_value_must_be_a_tensor(torch: Any) -> None:
    x = leaf(torch, 3.0)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: 3):
        y = x * x

    assert raises(TypeError, y.backward) == (
        "Output of saved tensor unpack_hook expected to be a Tensor but got result of type int"
    )


def test_a_pack_hook_may_not_write_into_what_it_gets(torch: Any) -> None:
    x = leaf(torch, 3.0)

    with (
        torch.autograd.graph.saved_tensors_hooks(lambda t: t.mul_(2), lambda t: t),
        pytest.raises(RuntimeError, match="A saved tensor pack hook is modifying its input"),
    ):
        (x * 1).exp()


def test_a_later_write_is_of_no_concern(torch: Any) -> None:
    """What the hook kept is the hook's to guard."""
    x = leaf(torch, 3.0)
    y = x * 1
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        z = y * y
    y.add_(1)
    z.backward()

    assert x.grad.tolist() == [6.0]


def test_an_error_inside_ends_the_hooks(torch: Any) -> None:
    log: list[str] = []
    with pytest.raises(ZeroDivisionError), hooks(torch, log):
        1 / 0  # noqa: B018
    leaf(torch, 3.0).exp()

    assert log == []


def test_hooks_can_be_forbidden(torch: Any) -> None:
    log: list[str] = []
    forbid = torch.autograd.graph.disable_saved_tensors_hooks
    with forbid("not here"):
        assert raises(RuntimeError, hooks(torch, log).__enter__) == "not here"
        with forbid("nor here"):
            assert raises(RuntimeError, hooks(torch, log).__enter__) == "nor here"
        assert raises(RuntimeError, hooks(torch, log).__enter__) == "not here"
    with hooks(torch, log):
        leaf(torch, 0.0).exp()

    assert log == ["pack [1.0]"]


def test_forbidding_is_undone_by_an_error_and_refused_inside_hooks(torch: Any) -> None:
    forbid = torch.autograd.graph.disable_saved_tensors_hooks
    with pytest.raises(ZeroDivisionError), forbid("not here"):
        1 / 0  # noqa: B018
    log: list[str] = []
    with hooks(torch, log):
        assert raises(RuntimeError, forbid("not here").__enter__) == "not here"


def test_hooks_can_be_registered_on_one_saved_value_once(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = x * 1
    z = y.exp()
    saved = z.grad_fn._raw_saved_result
    saved.register_hooks(lambda t: t, lambda t: t * 2)

    assert raises(RuntimeError, lambda: saved.register_hooks(lambda t: t, lambda t: t)).startswith(
        "Calling register_hooks on a saved tensor whose hooks have already been set."
    )
    z.backward()
    assert round(x.grad.item(), 6) == 40.171074


def test_hooks_registered_on_a_saved_input(torch: Any) -> None:
    x, w = leaf(torch, 3.0), leaf(torch, 5.0)
    y = x * w
    y.grad_fn._raw_saved_other.register_hooks(lambda t: t * 10, lambda t: t)
    y.backward()

    assert (x.grad.tolist(), w.grad.tolist()) == ([50.0], [3.0])


def test_saving_in_host_memory_changes_nothing(torch: Any) -> None:
    x = leaf(torch, 3.0)
    with torch.autograd.graph.save_on_cpu():
        y = (x * x).exp()
    y.backward()

    assert round(x.grad.item(), 3) == 48618.504


def test_saved_tensors_may_be_written_to_where_that_is_allowed(torch: Any) -> None:
    x = leaf(torch, 3.0)
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        y = x * 1
        z = y * y
        y.add_(1)
        y[:1].mul_(10)
        z.backward()

    assert x.grad.tolist() == [6.0]


def test_what_an_operation_writes_to_by_out_is_copied_before_too(torch: Any) -> None:
    x, factor = leaf(torch, 3.0), torch.tensor([2.0])
    with torch.autograd.graph.allow_mutation_on_saved_tensors() as context:
        y = x * factor
        torch.sin(torch.ones(1), out=factor)
        assert len(context.cloned) == 1
        y.backward()

    assert x.grad.tolist() == [2.0]


def test_that_is_allowed_only_inside_and_only_once(torch: Any) -> None:
    allow = torch.autograd.graph.allow_mutation_on_saved_tensors
    x = leaf(torch, 3.0)
    with allow():
        y = (x * x).sum()
        assert raises(RuntimeError, allow().__enter__) == (
            "allow_mutation_on_saved_tensors contexts cannot be nested"
        )
    assert "outside of the 'allow_mutation_on_saved_tensors' context" in raises(
        AssertionError, y.backward
    )


def test_all_is_unpacked_in_the_order_in_which_it_was_packed(torch: Any) -> None:
    """Also for a gradient that never came."""
    x, y = leaf(torch, 3.0), leaf(torch, 5.0)
    log: list[Any] = []

    def pack(tensor: Any) -> Any:
        log.append(("pack", tensor.item()))
        return tensor.item()

    def unpack(number: float) -> Any:
        log.append(("unpack", number))
        return torch.tensor([number], dtype=torch.float64)

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        z = x * y
    function(torch, lambda ctx, x: x * 1, lambda ctx, grad: None).apply(z).backward()

    packed = [number for word, number in log if word == "pack"]
    assert [number for word, number in log if word == "unpack"] == packed == [5.0, 3.0]


def test_lists_of_no_tensors_are_refused_as_without_hooks(torch: Any) -> None:
    for join in (torch.cat, torch.stack):
        with pytest.raises((RuntimeError, ValueError)) as expected:
            join([])
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            assert raises(expected.type, lambda join=join: join([])) == str(expected.value)
