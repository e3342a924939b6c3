"""Rule 39: what is copied and pickled, with what it shares, and what cannot be."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from gradscope.trace import schema
from gradscope.trace.trace import Trace
from tests.runtime.both import leaf, raises
from tests.runtime.rules.conftest import Seen


@pytest.mark.rule(39)
def test_leaves_parameters_and_their_sharing_are_copied_and_nodes_are_not(
    torch: Any, seen: Seen
) -> None:
    def pickled(value: Any) -> Any:
        return pickle.loads(pickle.dumps(value))

    heard: list[Any] = []
    x = leaf(torch, 1.0, 2.0)
    handle = x.register_hook(heard.append)
    handle.remove()
    (x * 3).sum().backward()
    for copied, grad in ((copy.copy, None), (copy.deepcopy, [3.0, 3.0]), (pickled, None)):
        made = copied(x)
        assert (made.is_leaf, made.requires_grad, made.tolist()) == (True, True, [1.0, 2.0])
        assert (None if made.grad is None else made.grad.tolist()) == grad
        made.grad = None
        (made * 5).sum().backward()
        assert made.grad.tolist() == [5.0, 5.0]
    assert x.grad.tolist() == [3.0, 3.0]
    assert copy.copy(x).data_ptr() == x.data_ptr() != copy.deepcopy(x).data_ptr()

    y = x * 2
    assert pickled(y).is_leaf
    assert raises(RuntimeError, lambda: copy.deepcopy(y)) == (
        "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol "
        "at the moment.  If you were attempting to deepcopy a module, this may be because of a "
        "torch.nn.utils.weight_norm usage, see https://github.com/pytorch/pytorch/pull/103001"
    )
    for copied in (copy.copy, copy.deepcopy, pickled):
        text = raises(TypeError, lambda copied=copied: copied(y.grad_fn))
        assert text == "cannot pickle 'MulBackward0' object"

    x.register_hook(heard.append)
    with pytest.warns(UserWarning, match="will not be serialized"):
        assert not pickled(x)._backward_hooks
    base = torch.zeros(2, 2)
    whole, row = copy.deepcopy([base, base[1]])
    row.fill_(1.0)
    assert (whole.tolist(), base.sum().item()) == ([[0.0, 0.0], [1.0, 1.0]], 0.0)
    model = torch.nn.Linear(2, 2)
    model.register_forward_hook(lambda module, inputs, output: heard.append(module))
    again = copy.deepcopy(model)
    again(torch.ones(1, 2)).sum().backward()
    assert heard == [again]
    assert model.weight.grad is None
    assert type(again.weight) is torch.nn.Parameter

    def shows(trace: Trace) -> bool:
        # each copy is a leaf of its own: `.grad` of the copies was filled, with what was theirs
        leaves = [event.tensor for event in trace.events(schema.Accumulate)]
        tensors = trace.table(schema.Tensor)
        return len(set(leaves)) == 6 and all(tensors.row(i).leaf for i in leaves)

    seen(shows)
