"""Memory that tensors share: aliases, expanded and overlapping tensors, set_, resize_ and data."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.both import leaf, names, raises

REPEATED = (
    "unsupported operation: more than one element of the written-to tensor refers to a single "
    "memory location. Please clone() the tensor before performing the operation."
)
OVERLAPS = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a "
    "single memory location. Please clone() the tensor before performing the operation."
)


def node(tensor: Any) -> str:
    return type(tensor.grad_fn).__name__


def expanded(torch: Any) -> Any:
    return torch.ones(1).expand(3)


@pytest.mark.parametrize(
    "write",
    ["add_(1)", "copy_(torch.ones(3))", "fill_(torch.tensor(2.))", "exp_()", "clamp_(0, 1)",
     "index_add_(0, torch.tensor([0]), torch.ones(1))", "normal_()",
     "masked_scatter_(torch.ones(3).bool(), torch.ones(3))", "scatter_(0, torch.tensor([0]), 1.)"],
)  # fmt: skip
def test_most_writes_to_an_expanded_tensor_are_refused(torch: Any, write: str) -> None:
    x = expanded(torch)

    assert raises(RuntimeError, lambda: eval(f"x.{write}", {"x": x, "torch": torch})) == REPEATED
    assert x._version == 0


@pytest.mark.parametrize("write", ["fill_(2.)", "zero_()", "squeeze_()", "t_()"])
def test_those_whose_order_does_not_matter_are_not(torch: Any, write: str) -> None:
    x = expanded(torch)
    eval(f"x.{write}", {"x": x, "torch": torch})

    assert x._version == 1


@pytest.mark.parametrize(
    ("write", "name"),
    [("masked_fill_(torch.tensor([True, False, True]), 3.)", "masked_fill_"),
     ("index_put_((torch.tensor([0]),), torch.tensor(3.))", "index_put_"),
     ("index_fill_(0, torch.tensor([0]), 3.)", "index_fill_")],
)  # fmt: skip
def test_some_warn(torch: Any, write: str, name: str) -> None:
    x = expanded(torch)
    like = r"tensor\[indices\] = tensor" if name == "index_put_" else r"tensor\[mask\] = scalar"
    said = f"Use of {name} on expanded tensors is deprecated.*e.g. {like}"
    with pytest.warns(UserWarning, match=said):
        eval(f"x.{write}", {"x": x, "torch": torch})

    assert x.tolist() == [3.0, 3.0, 3.0]


def test_products_added_in_place_look_at_no_memory(torch: Any) -> None:
    expanded(torch).addmv_(torch.ones(3, 3), torch.ones(3))
    torch.zeros(1).expand(2, 3, 3).baddbmm_(torch.ones(2, 3, 3), torch.ones(2, 3, 3))
    room = torch.ones(4)

    assert room[1:].addmv_(torch.eye(3), room[:-1]).shape == (3,)


def test_a_write_may_not_read_the_memory_it_writes_to_in_another_order(torch: Any) -> None:
    x = torch.arange(4.0).reshape(2, 2)

    assert raises(RuntimeError, lambda: x.add_(x.t())) == OVERLAPS
    assert raises(RuntimeError, lambda: x.view(-1)[1:].add_(x.view(-1)[:-1])) == OVERLAPS
    row, places = x.view(-1), (torch.tensor([0, 1, 2, 3]),)
    assert raises(RuntimeError, lambda: row.index_put_(places, row)) == OVERLAPS
    assert x.mul_(x).tolist() == [[0.0, 1.0], [4.0, 9.0]]
    assert x.copy_(x).tolist() == [[0.0, 1.0], [4.0, 9.0]]
    x[x > 3] = x[0, 1]
    assert x.tolist() == [[0.0, 1.0], [1.0, 1.0]]


def test_set_makes_a_tensor_a_window_on_other_memory(torch: Any) -> None:
    x, other = torch.zeros(4), torch.arange(4.0)
    x.set_(other, 1, (2,), (2,))
    assert (x.tolist(), x.storage_offset(), x._version) == ([1.0, 3.0], 1, 1)
    x[0] = 7
    assert other.tolist() == [0.0, 7.0, 2.0, 3.0]
    x.set_(other.untyped_storage(), 0, (3,), (1,))
    x.set_(other.untyped_storage())
    assert x.tolist() == other.tolist()
    x.set_()
    assert (x.shape, x._version) == ((0,), 5)
    assert raises(RuntimeError, lambda: x.set_(torch.zeros(2, dtype=torch.float64))) == (
        "Could not set tensor of type double to a tensor of type float"
    )


def test_set_has_no_way_back(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    y, other = x * 1, torch.zeros(3, dtype=torch.float64)
    y.set_(other)

    assert (node(y), names(y.grad_fn), y._version) == (
        "NotImplemented", [("MulBackward0", 0), (None, 0)], 1,
    )  # fmt: skip
    assert raises(RuntimeError, y.sum().backward) == "derivative for set_ is not implemented"
    other.set_(x * 2)
    assert (node(other), other.requires_grad) == ("NotImplemented", True)
    assert raises(RuntimeError, lambda: x.set_(y.detach())) == (
        "a leaf Variable that requires grad is being used in an in-place operation."
    )


def test_resize_gives_a_tensor_other_sizes_on_its_memory(torch: Any) -> None:
    whole = torch.arange(6.0)
    part = whole[2:4]
    part.resize_(3)
    assert (part.tolist(), part.storage_offset(), whole._version) == ([2.0, 3.0, 4.0], 2, 1)
    assert part.resize_((2, 2)).shape == (2, 2)
    assert part.resize_as_(whole).numel() == 6
    assert raises(RuntimeError, lambda: leaf(torch, 1.0).resize_(2)) == (
        "cannot resize variables that require grad"
    )


def test_as_strided_in_place_has_a_node_of_its_own(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0, 3.0, 4.0)
    y = x * 1
    assert y.as_strided_((2,), (2,), 1) is y
    y.sum().backward()

    assert (node(y), y.tolist(), x.grad.tolist()) == (
        "AsStridedBackward1", [2.0, 4.0], [0.0, 1.0, 0.0, 1.0],
    )  # fmt: skip


def test_strided_windows_on_a_transposed_base(torch: Any) -> None:
    x = torch.arange(6.0, dtype=torch.float64).reshape(2, 3).t().detach().requires_grad_()
    base = x * 1
    base.as_strided((2,), (4,), 1).mul_(10)
    (base * torch.arange(6.0, dtype=torch.float64).reshape(3, 2)).sum().backward()

    found = base.tolist()
    assert (found, x.grad.tolist()) == (
        [[0.0, 3.0], [10.0, 4.0], [2.0, 50.0]], [[0.0, 1.0], [20.0, 3.0], [4.0, 50.0]],
    )  # fmt: skip


def test_views_of_a_base_whose_dims_were_changed_in_place(torch: Any) -> None:
    x = torch.arange(6.0, dtype=torch.float64).reshape(2, 3).requires_grad_()
    base = x * 1
    view = base[1]
    base.t_()
    base.mul_(2)
    assert view.tolist() == [6.0, 8.0, 10.0]
    (view * torch.tensor([1.0, 10.0, 100.0], dtype=torch.float64)).sum().backward()

    assert x.grad.tolist() == [[0.0, 0.0, 0.0], [2.0, 20.0, 200.0]]


def test_views_of_another_dtype_count_the_same_writes(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    y = x * 1
    whole = y.view(torch.int64)
    assert (whole.requires_grad, whole._is_view(), whole.is_leaf) == (False, False, True)
    whole.zero_()
    assert (y.tolist(), y._version, whole._version, node(y)) == ([0.0, 0.0], 1, 1, "MulBackward0")
    assert raises(RuntimeError, lambda: torch.ones(3).view(torch.float64)).startswith(
        "self.size(-1) must be divisible by 2 to view Float as Double"
    )


def test_complex_views_are_taken_again(torch: Any) -> None:
    x = torch.ones(2, 2, dtype=torch.complex128, requires_grad=True)
    base = x * 1
    pairs, real, last = torch.view_as_real(base), base.real, torch.view_as_real(base[1])
    base.mul_(2)
    chains = []
    for view in (pairs, real, last):
        chain, step = [], view.grad_fn
        while step is not None and type(step).__name__ != "MulBackward0":
            chain.append(type(step).__name__)
            step = step.next_functions[0][0]
        chains.append(chain)

    assert chains == [
        ["ViewAsRealBackward0"],
        ["AsStridedBackward0", "ViewAsRealBackward0"],
        ["ViewAsRealBackward0", "AsStridedBackward0"],
    ]
    base.imag = torch.zeros(2, 2, dtype=torch.float64)
    pairs.sum().backward()
    assert x.grad.tolist() == [[2 + 0j, 2 + 0j]] * 2


def test_views_can_be_taken_again_instead_of_strided(torch: Any) -> None:
    base = leaf(torch, 1.0, 2.0, 3.0, 4.0) * 1
    before = base[1:]
    with torch.autograd._force_original_view_tracking(True):
        inside = base[2:].view(2, 1)
    base.mul_(2)

    assert (node(before), node(inside), names(inside.grad_fn)) == (
        "AsStridedBackward0", "ViewBackward0", [("SliceBackward0", 0)],
    )  # fmt: skip


def test_a_write_can_be_hidden_from_the_counter(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    y = x * 1
    z = y * y
    with torch.autograd._unsafe_preserve_version_counter(y):
        y.add_(1)
    z.sum().backward()

    assert (y._version, x.grad.tolist()) == (0, [4.0, 6.0])


def test_what_data_can_be_set_to(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)

    def delete() -> None:
        del x.data

    assert raises(TypeError, lambda: setattr(x, "data", 3)) == (
        "Variable data has to be a tensor, but got int"
    )
    assert raises(RuntimeError, lambda: setattr(x, "data", torch.zeros(1, dtype=torch.int64))) == (
        "data set to a tensor that requires gradients must be floating point or complex dtype"
    )
    assert raises(RuntimeError, delete) == (
        "Deleting tensor data is not allowed. Delete tensor instead!"
    )
    x.sum().backward()
    x.data = torch.zeros(3, dtype=torch.float64)
    assert raises(RuntimeError, x.sum().backward) == (
        "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0"
    )


def test_what_requires_grad_can_be_set_to(torch: Any) -> None:
    x = leaf(torch, 1.0)

    assert raises(RuntimeError, lambda: setattr(x, "requires_grad", 1)) == (
        "requires_grad must be a bool"
    )
    assert raises(TypeError, lambda: x.requires_grad_(None)) == (
        "requires_grad_(): argument 'requires_grad' (position 1) must be bool, not NoneType"
    )
    for name in ("is_leaf", "grad_fn", "_version", "_base", "output_nr"):
        assert raises(AttributeError, lambda name=name: setattr(x, name, None)) == (
            f"attribute '{name}' of 'torch._C.TensorBase' objects is not writable"
        )


def test_a_parameter_counts_the_writes_to_what_it_was_made_of(torch: Any) -> None:
    data = torch.zeros(2)
    parameter = torch.nn.Parameter(data)
    data.add_(1)

    assert (parameter.tolist(), parameter._version, parameter._is_view()) == ([1.0, 1.0], 1, False)


def test_a_parameter_set_to_fewer_elements_takes_gradients_of_its_new_size(torch: Any) -> None:
    x = torch.nn.Parameter(torch.ones(4))
    for size in (3, 2):
        with torch.no_grad():
            x.set_(x[1:])
            x.grad = None
        torch.cat((x, x)).sum().backward()
        assert x.grad.tolist() == [2.0] * size


def test_a_leaf_that_was_set_is_another_to_graphs_made_before(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    edge = torch.autograd.graph.get_gradient_edge(x)
    out = x.clone()
    with torch.no_grad():
        x.set_(torch.ones(2, dtype=torch.float64))

    assert torch.autograd.grad(out.sum(), edge, retain_graph=True)[0].tolist() == [1.0, 1.0]
    assert "to not have been used in the graph" in raises(
        RuntimeError, lambda: torch.autograd.grad(out.sum(), x)
    )


def test_resizing_to_the_size_it_has_is_no_write(torch: Any) -> None:
    x = torch.ones(3)
    x.resize_((1, 3))
    x.resize_((1, 3))
    assert x._version == 1
    x.resize_as_(torch.ones(2, 2))
    x.resize_as_(torch.ones(2, 2))
    assert x._version == 2


def test_without_grad_mode_a_leaf_hands_out_its_array(torch: Any) -> None:
    x = leaf(torch, 1.0)
    with torch.no_grad():
        assert x.numpy().tolist() == [1.0]
    assert raises(RuntimeError, x.numpy).startswith("Can't call numpy() on Tensor that requires")


def test_a_view_that_lost_its_history_is_shown_without_one(torch: Any) -> None:
    x = torch.ones(1, requires_grad=True)
    with torch.no_grad():
        view = x[:]
        view *= 2

    assert repr(view) == "tensor([2.], grad_fn=<Invalid>)"


def test_an_unpack_hook_may_give_back_the_very_tensor(torch: Any) -> None:
    x, constant = leaf(torch, 2.0), torch.ones(1, dtype=torch.float64)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        y = x * constant

    assert y.grad_fn._saved_other is constant
