"""Nodes called, listed and asked in ways programs rarely do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.both import function, leaf, raises

REFUSED = {
    "name() takes no arguments (1 given)": lambda node: node.name(1),
    "name() takes no keyword arguments": lambda node: node.name(a=1),
    "_sequence_nr() takes no arguments (1 given)": lambda node: node._sequence_nr(1),
    "register_hook() takes exactly one argument (0 given)": lambda node: node.register_hook(),
    "register_hook() takes exactly one argument (2 given)": lambda node: node.register_hook(1, 2),
    "register_hook() takes no keyword arguments": lambda node: node.register_hook(hook=print),
    "register_prehook() takes exactly one argument (0 given)": lambda node: node.register_prehook(),
}


def test_methods_of_nodes_refuse_other_arguments(torch: Any) -> None:
    multiplied = (leaf(torch, 1.0) * 2).grad_fn
    accumulating = multiplied.next_functions[0][0]
    mine = function(torch, lambda ctx, x: x * 2, lambda ctx, g: g).apply(leaf(torch, 1.0)).grad_fn

    for text, call in REFUSED.items():
        for node in (multiplied, accumulating):
            told = raises(TypeError, lambda call=call, node=node: call(node))
            assert told == f"{type(node).__name__}.{text}"
        assert raises(TypeError, lambda call=call: call(mine)) == f"_FunctionBase.{text}"
    with pytest.raises(TypeError, match="an integer is required"):
        multiplied._set_sequence_nr("a")
    with pytest.raises(TypeError, match="_register_hook_dict expected a variable"):
        multiplied._register_hook_dict(1)


def test_a_node_called_by_hand_asks_no_hooks_but_those_of_its_leaf(torch: Any) -> None:
    x = leaf(torch, 1.0)
    node = (x * 2).grad_fn
    seen: list[str] = []
    accumulating = node.next_functions[0][0]
    for each in (node, accumulating):
        each.register_hook(lambda *_: seen.append("after"))
        each.register_prehook(lambda *_: seen.append("before"))
    x.register_post_accumulate_grad_hook(lambda _: seen.append("accumulated"))

    assert node(torch.ones(1))[0].tolist() == [2.0]
    assert seen == []
    accumulating(torch.ones(1))
    assert seen == ["accumulated"]


def test_a_node_lists_what_pytorchs_does(torch: Any) -> None:
    node = (leaf(torch, 1.0) * 2).grad_fn

    for each in (node, node.next_functions[0][0]):
        shown = [name for name in dir(each) if not name.startswith("__")]
        assert shown == sorted(
            {
                "_input_metadata",
                "_register_hook_dict",
                "_sequence_nr",
                "_set_sequence_nr",
                "metadata",
                "name",
                "next_functions",
                "register_hook",
                "register_prehook",
                "requires_grad",
                *(("variable",) if each is not node else ()),
                *(
                    ("_raw_saved_other", "_raw_saved_self", "_saved_other", "_saved_self")
                    if each is node
                    else ()
                ),
            }
        )


def test_what_is_known_of_a_nodes_gradients_beforehand(torch: Any) -> None:
    (known,) = (torch.ones(2, 3, requires_grad=True) * 2).grad_fn._input_metadata

    assert type(known) is torch._C._autograd._InputMetadata
    assert (known.shape, known.dtype) == ([2, 3], torch.float32)
    assert [name for name in dir(known) if not name.startswith("_")] == [
        "device",
        "dtype",
        "is_cpp_nested_tensor",
        "is_nested_tensor",
        "shape",
    ]
    assert raises(TypeError, type(known)) == (
        "torch._C._autograd._InputMetadata: No constructor defined!"
    )


def test_a_node_counts_the_outputs_that_have_gradients(torch: Any) -> None:
    p, lower, upper = torch.linalg.lu(torch.ones(2, 2).requires_grad_())

    assert (lower.output_nr, upper.output_nr, len(upper.grad_fn._input_metadata)) == (0, 1, 2)
    assert (p.grad_fn, p.requires_grad) == (None, False)


def test_negative_options_are_shown_without_their_sign_as_pytorch_shows_them(torch: Any) -> None:
    x = torch.ones(2, 3, requires_grad=True)
    last = 2**64 - 1

    assert x.sum(-1).grad_fn._saved_dim == (last,)
    assert x.cumsum(-1).grad_fn._saved_dim == last
    assert x.select(-1, -1).grad_fn._saved_index == last
    assert x[-2:].grad_fn._saved_start == last - 1
    assert (x**-2).grad_fn._saved_exponent == -2


def test_sizes_of_batches_are_kept_under_pytorchs_names(torch: Any) -> None:
    matrices = torch.ones(2, 3, 4, requires_grad=True), torch.ones(2, 4, 5, requires_grad=True)
    node = torch.addbmm(torch.ones(3, 5), *matrices).grad_fn

    assert (node._saved_batch1_sym_argsize_0, node._saved_batch1_sym_argsize_1) == (2, 3)
    assert node._saved_batch2_sym_argsize_2 == 5
