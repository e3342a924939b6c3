"""`torch.autograd.graph`: nodes, edges, hooks on many tensors, what was saved and written."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.both import function, leaf, raises, runtime


def test_nodes_are_instances_of_node(torch: Any) -> None:
    graph = torch.autograd.graph
    x = leaf(torch, 2.0)
    mine = function(torch, lambda ctx, x: x * 2, lambda ctx, grad: grad)
    product, custom = x * x, mine.apply(x)

    assert isinstance(product.grad_fn, graph.Node)
    assert isinstance(custom.grad_fn, graph.Node)
    assert isinstance(product.grad_fn.next_functions[0][0], graph.Node)
    assert not isinstance(x, graph.Node)
    assert issubclass(type(product.grad_fn), graph.Node)


def test_a_node_says_what_it_takes_and_where_it_stands(torch: Any) -> None:
    x = torch.ones(2, 3, requires_grad=True)
    first = x * 2
    second = x * 2
    (taken,) = second.grad_fn._input_metadata

    assert (tuple(taken.shape), taken.dtype, str(taken.device), taken.is_nested_tensor) == (
        (2, 3), torch.float32, "cpu", False,
    )  # fmt: skip
    assert second.grad_fn._sequence_nr() > first.grad_fn._sequence_nr()
    second.grad_fn._set_sequence_nr(7)
    assert (second.grad_fn._sequence_nr(), second.grad_fn.requires_grad) == (7, True)
    second.grad_fn.metadata["mine"] = 3
    assert second.grad_fn.metadata == {"mine": 3}
    with pytest.raises(AttributeError):
        second.grad_fn.foo = 3


def test_edges_of_leaves_results_and_custom_functions(torch: Any) -> None:
    graph = torch.autograd.graph
    x = leaf(torch, 2.0, 3.0)
    first, second = (x * 1).unbind()
    mine = function(torch, lambda ctx, x: x * 2, lambda ctx, grad: grad)
    custom = mine.apply(x)

    assert type(graph.get_gradient_edge(x).node).__name__ == "AccumulateGrad"
    edges = [graph.get_gradient_edge(t) for t in (first, second)]
    assert [edge.output_nr for edge in edges] == [0, 1]
    assert edges[0].ownership_token is None
    assert type(graph.get_gradient_edge(custom).ownership_token).__name__ == "ViewBackward0"
    (grad,) = torch.autograd.grad((first * 5).sum(), [graph.get_gradient_edge(first)])
    assert grad.tolist() == 5.0
    assert raises(RuntimeError, lambda: graph.get_gradient_edge(torch.ones(1))) == (
        "It is not possible to get the gradient edge for a Tensor that does not require gradients"
    )


def test_what_can_be_counted_as_written(torch: Any) -> None:
    count = torch.autograd.graph.increment_version
    x, y = torch.ones(1), torch.ones(1)
    count(x)
    count([x, y, x])
    count(tensor for tensor in (y,))

    assert (x._version, y._version) == (3, 2)
    assert raises(RuntimeError, lambda: count(3)) == (
        "increment_version expect a Iterable[Tensor] as input"
    )
    assert raises(RuntimeError, lambda: count([3])) == (
        "increment_version expects each element of the iterable to be a tensor"
    )


def test_a_hook_on_any_of_many_tensors_fires_once_a_backward_nested_ones_apart(torch: Any) -> None:
    x = leaf(torch, 2.0)
    first, second = x * 2, x * 3
    inner = (first * 10).sum()
    log: list[Any] = []
    handle = torch.autograd.graph.register_multi_grad_hook(
        (first, second, torch.ones(1)), lambda grad: log.append(grad.tolist()), mode="any"
    )

    def nested(grad: Any) -> None:
        torch.autograd.grad(inner, x, retain_graph=True)

    second.register_hook(nested)
    (first * 7 + second).sum().backward()

    assert log == [[1.0], [10.0]]
    handle.remove()
    (x * 2).sum().backward()
    assert len(log) == 2


def test_what_many_tensors_must_be(torch: Any) -> None:
    register = torch.autograd.graph.register_multi_grad_hook

    assert raises(AssertionError, lambda: register([torch.ones(1)], print)) == (
        "Expected gradient function to be set"
    )
    assert raises(ValueError, lambda: register([leaf(torch, 1.0)], print, mode="none")).startswith(
        "Expects mode to be one of ('all', 'any') but got none"
    )


def test_a_raw_saved_value_can_be_asked_before_and_after(torch: Any) -> None:
    x = leaf(torch, 2.0)
    y = x * 1
    z = y * x
    raw = z.grad_fn._raw_saved_self
    assert type(raw).__name__ == "SavedTensor"
    assert (raw.data is y, raw.unpack() is y, raw.unpack_hook) == (True, True, None)
    raw.register_hooks(lambda t: ("packed", t), lambda packed: packed[1] * 1)
    assert raw.data[0] == "packed"
    assert (raw.unpack().tolist(), callable(raw.unpack_hook)) == ([2.0], True)
    z.backward()

    assert raw.data is None
    assert raises(RuntimeError, lambda: raw.register_hooks(lambda t: t, lambda t: t)).startswith(
        "Calling register_hooks on a saved tensor after it has been freed."
    )


def test_a_pack_hook_that_raises_leaves_nothing_to_unpack(torch: Any) -> None:
    x = leaf(torch, 2.0)
    y = x * 1
    z = y * x

    def fails(tensor: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError):
        z.grad_fn._raw_saved_self.register_hooks(fails, lambda packed: packed)
    assert "missing 1 required positional argument" in raises(TypeError, z.backward)
    with torch.autograd.graph.saved_tensors_hooks(fails, lambda packed: packed):
        with pytest.raises(KeyError):
            y * x
        assert (y + 1).requires_grad
    assert torch.is_grad_enabled()


def test_pack_hooks_see_the_tensor_itself_with_its_history(torch: Any) -> None:
    seen: list[Any] = []

    def pack(tensor: Any) -> Any:
        node = None if tensor.grad_fn is None else type(tensor.grad_fn).__name__
        seen.append((tensor, node, tensor.requires_grad, torch.is_grad_enabled()))
        return tensor.detach()

    x = leaf(torch, 2.0)
    y = x * 1
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed):
        z = y * x
        result = y.exp()
        y * 3  # a number is no tensor, and is not packed

    assert [line[1:] for line in seen] == [
        (None, True, False), ("MulBackward0", True, False), ("ExpBackward0", True, False),
    ]  # fmt: skip
    assert [line[0] is t for line, t in zip(seen, (x, y, result), strict=True)] == [True] * 3
    assert (z.grad_fn._saved_other is x, z.grad_fn._saved_other.is_leaf) == (False, True)


def test_indices_are_kept_and_guarded_like_inputs(torch: Any) -> None:
    x, index = leaf(torch, 1.0, 2.0, 3.0), torch.tensor([0, 2])
    y = x[index]
    assert [t is None for t in x.reshape(1, 3)[:, index].grad_fn._saved_indices] == [True, False]
    index.add_(0)

    assert raises(RuntimeError, y.sum().backward).startswith("one of the variables needed")


def test_mutation_makes_one_copy_of_what_was_saved_twice(torch: Any) -> None:
    x = leaf(torch, 3.0)
    with torch.autograd.graph.allow_mutation_on_saved_tensors() as context:
        y = x * 1
        z = (y * y).sum()
        assert (len(context.original), len(context.cloned)) == (1, 0)
        y.mul_(5)
        assert (len(context.original), len(context.cloned)) == (0, 1)
        y.mul_(5)
        again = (y * y).sum()
        y.zero_()
        (z + again).backward()

    assert (x.grad.tolist(), len(context.original), len(context.cloned)) == (
        [6.0 + 2 * 75 * 25], 0, 0,
    )  # fmt: skip


def test_switches_for_other_machines_are_checked_and_accepted(torch: Any) -> None:
    graph = torch.autograd.graph
    for switch in (
        graph.set_warn_on_accumulate_grad_stream_mismatch,
        graph.set_override_stale_capture_stream,
    ):
        assert raises(RuntimeError, lambda switch=switch: switch(3)) == (
            "enabled must be a bool, but got int"
        )
    graph.set_warn_on_accumulate_grad_stream_mismatch(True)
    graph.set_override_stale_capture_stream(False)
    budget = graph.region_activation_memory_budget
    assert "must be in [0, 1], got 2" in raises(ValueError, lambda: budget(2))
    assert "expects a float, got bool" in raises(TypeError, lambda: budget(True))
    assert "can only be used inside a torch.compile region" in raises(
        RuntimeError, lambda: budget(0.5)
    )


def test_a_node_creation_hook_sees_every_node_of_its_block() -> None:
    """PyTorch has none."""
    torch = runtime()
    made: list[str] = []

    def note(node: Any) -> None:
        made.append(type(node).__name__)
        node.metadata["number"] = len(made)
        (leaf(torch, 1.0) * 2).exp()  # nodes of the hook's own are not shown

    x = leaf(torch, 2.0)
    with torch.autograd.graph.node_creation_hook(note):
        y = (x * 2).exp()
        y[:1].mul_(3)
    x * 2

    assert made == ["MulBackward0", "ExpBackward0", "SliceBackward0", "MulBackward0", "CopySlices",
                    "AsStridedBackward0"]  # fmt: skip
    assert y.grad_fn.metadata == {"number": 5}
    with pytest.raises(ZeroDivisionError), torch.autograd.graph.node_creation_hook(note):
        1 / 0  # noqa: B018
    x * 2
    assert len(made) == 6
