"""Checkpoints that keep some results and compute the others again."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.runtime.both import leaf, raises
from tests.runtime.utils.test_checkpoint import parts


def counted(torch: Any, policy: Any, function: Any, x: Any) -> tuple[Any, list[str]]:
    """The gradient through a selective checkpoint, and which functions backward ran again."""
    ran: list[str] = []
    mode = torch.utils._python_dispatch.TorchDispatchMode

    class Seen(mode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            ran.append(str(func))
            return func(*args, **(kwargs or {}))

    made = parts(torch)
    context = partial(made.create_selective_checkpoint_contexts, policy)
    out = made.checkpoint(function, x, use_reentrant=False, context_fn=context)
    with Seen():
        out.sum().backward()
    return x.grad, ran


def test_what_is_kept_is_not_computed_again(torch: Any) -> None:
    x = leaf(torch, 0.5, 1.0)
    grad, ran = counted(torch, [torch.ops.aten.exp.default], lambda x: x.exp().sin().exp(), x)
    plain = leaf(torch, 0.5, 1.0)
    plain.exp().sin().exp().sum().backward()

    assert grad.tolist() == pytest.approx(plain.grad.tolist())
    assert "aten.exp.default" not in ran
    assert "aten.sin.default" in ran


def test_a_policy_is_asked_once_of_each_call(torch: Any) -> None:
    asked: list[tuple[bool, str]] = []
    policies = parts(torch).CheckpointPolicy

    def policy(context: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
        asked.append((context.is_recompute, str(op)))
        return policies.PREFER_RECOMPUTE

    counted(torch, policy, lambda x: x.sin().cos(), leaf(torch, 1.0))

    assert asked == [(False, "aten.sin.default"), (False, "aten.cos.default")]


def test_operations_of_several_results_are_kept_together(torch: Any) -> None:
    def function(x: Any) -> Any:
        variance, mean = torch.var_mean(x)
        return (variance * mean).exp()

    x = leaf(torch, 1.0, 2.0, 4.0)
    grad, ran = counted(torch, lambda *_: True, function, x)
    plain = leaf(torch, 1.0, 2.0, 4.0)
    function(plain).backward()

    assert grad.tolist() == pytest.approx(plain.grad.tolist())
    assert "aten.var_mean.correction" not in ran


def test_a_region_that_keeps_something_can_be_run_backward_once(torch: Any) -> None:
    made = parts(torch)
    context = partial(made.create_selective_checkpoint_contexts, [torch.ops.aten.sin.default])
    out = made.checkpoint(
        lambda x: x.sin().exp(), leaf(torch, 1.0), use_reentrant=False, context_fn=context
    )
    out.backward(retain_graph=True)

    assert raises(RuntimeError, out.backward).startswith("Trying to backward an extra time.")


def test_policies_are_functions_or_lists_of_overloads(torch: Any) -> None:
    contexts = parts(torch).create_selective_checkpoint_contexts

    assert raises(TypeError, lambda: contexts(2)) == (
        "policy_fn_or_list must be either a function or a list of ops."
    )
    assert raises(ValueError, lambda: contexts([2])).startswith(
        "Expected op in `op_list` to be an OpOverload but got: 2 of type <class 'int'>."
    )
    assert "update the OpOverloadPacket to a specific OpOverload" in raises(
        ValueError, lambda: contexts([torch.ops.aten.sin])
    )


def test_what_is_kept_may_have_been_written_to_only_where_that_is_allowed(torch: Any) -> None:
    made = parts(torch)

    def checkpointed(**options: Any) -> tuple[Any, Any]:
        x = leaf(torch, 1.0)
        kept = [torch.ops.aten.sin.default]
        context = partial(made.create_selective_checkpoint_contexts, kept, **options)
        out = made.checkpoint(
            lambda x: x.sin().mul_(2).cos(), x, use_reentrant=False, context_fn=context
        )
        return x, out.sum()

    _, out = checkpointed()
    assert raises(RuntimeError, out.backward) == (
        "Tensor cached during selective activation checkpoint has been mutated"
    )
    x, out = checkpointed(allow_cache_entry_mutation=True)
    out.backward()
    doubled = 2 * 2 * torch.tensor(1.0).sin()  # written to in both runs
    assert x.grad.item() == pytest.approx((-doubled.sin() * 2 * torch.tensor(1.0).cos()).item())
