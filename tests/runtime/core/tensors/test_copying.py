"""copy, deepcopy and pickle, on both engines."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.runtime.both import leaf, raises
from tests.runtime.core.autograd.conftest import torch

__all__ = ["torch"]

Copy = Callable[[Any], Any]


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


EVERY = pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
NEW = pytest.mark.parametrize("copied", [copy.deepcopy, pickled])


@pytest.fixture
def subclass(torch: Any) -> Iterator[Any]:
    """A subclass that pickle can find again."""
    made = type("Mine", (torch.Tensor,), {"__module__": __name__})
    globals()["Mine"] = made
    yield made
    del globals()["Mine"]


@EVERY
def test_a_leaf_stays_a_leaf_that_requires_grad(torch: Any, copied: Copy) -> None:
    x = leaf(torch, 1.0, 2.0)
    made = copied(x)

    assert (made.tolist(), made.dtype, made.requires_grad, made.is_leaf) == (
        [1.0, 2.0],
        torch.float64,
        True,
        True,
    )
    assert made is not x
    (made * 3).sum().backward()
    assert made.grad.tolist() == [3.0, 3.0]
    assert x.grad is None


def test_only_deepcopy_takes_the_gradient_with_it(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    (x * 3).sum().backward()

    assert copy.copy(x).grad is None
    assert pickled(x).grad is None
    made, grad = copy.deepcopy([x, x.grad])
    assert made.grad is grad
    assert grad is not x.grad
    assert grad.tolist() == [3.0, 3.0]


def test_a_result_of_an_operation_comes_back_as_a_leaf_but_not_by_deepcopy(torch: Any) -> None:
    y = leaf(torch, 1.0) * 2
    for copied in (copy.copy, pickled):
        made = copied(y)
        assert (made.is_leaf, made.requires_grad, made.item()) == (True, True, 2.0)
    assert raises(RuntimeError, lambda: copy.deepcopy(y)).startswith(
        "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol "
        "at the moment."
    )


@EVERY
def test_a_copy_keeps_strides_and_offset_in_a_storage_as_large(torch: Any, copied: Copy) -> None:
    base = torch.arange(12.0).view(3, 4)
    for view in (base[1:, ::2], base.t(), base[2], torch.ones(1).expand(4), base[0, 1]):
        made = copied(view)
        assert made.tolist() == view.tolist()
        assert (made.stride(), made.storage_offset()) == (view.stride(), view.storage_offset())
        assert made.untyped_storage().nbytes() == view.untyped_storage().nbytes()
        assert made._base is None


def test_what_shares_memory_shares_it_in_a_deepcopy_and_in_a_copy_with_the_original(
    torch: Any,
) -> None:
    base = torch.zeros(2, 3)
    made, row, turned = copy.deepcopy([base, base[0], base.t()])
    made[0, 1] = 5.0
    assert (row.tolist(), turned[1, 0].item(), base.sum().item()) == ([0.0, 5.0, 0.0], 5.0, 0.0)

    alias = copy.copy(base)
    alias[1, 1] = 7.0
    assert base[1, 1].item() == 7.0

    made, row = pickled([base, base[0]])
    made[0, 0] = 9.0
    assert row.tolist() == [0.0, 0.0, 0.0]


@NEW
def test_one_object_stays_one_object(torch: Any, copied: Copy) -> None:
    x = leaf(torch, 1.0)
    first, second = copied([x, x])

    assert first is second
    assert first is not x


@EVERY
@pytest.mark.filterwarnings("ignore:backward hook")
def test_hooks_stay_behind(torch: Any, copied: Copy) -> None:
    heard: list[Any] = []
    x = leaf(torch, 1.0)
    x.register_hook(heard.append)
    x.register_post_accumulate_grad_hook(heard.append)
    (copied(x) * 2).backward()

    assert heard == []


def test_a_hook_that_is_left_behind_is_warned_of_unless_it_was_said_so(torch: Any) -> None:
    x = leaf(torch, 1.0)
    x.register_hook(print)
    with pytest.warns(UserWarning, match="^backward hook <built-in function print> on tensor will"):
        pickle.dumps(x)

    def known(grad: Any) -> None: ...

    known.__torch_unserializable__ = True  # type: ignore[attr-defined]
    y = leaf(torch, 1.0)
    y.register_hook(known)
    assert pickled(y).tolist() == [1.0]


@EVERY
def test_attributes_go_along(torch: Any, copied: Copy) -> None:
    x = leaf(torch, 1.0)
    x.note = ["a"]
    made = copied(x)

    assert made.note == ["a"]
    assert (made.note is x.note) == (copied is copy.copy)
    assert type(made) is torch.Tensor


@pytest.mark.parametrize("copied", [copy.copy, pickled])
def test_subclasses_keep_their_class_and_what_they_hold(
    torch: Any, subclass: Any, copied: Copy
) -> None:
    x = torch.ones(2).as_subclass(subclass)
    x.extra = {"n": 3}
    made = copied(x)

    assert type(made) is subclass
    assert (made.extra, made.tolist()) == ({"n": 3}, [1.0, 1.0])


def test_a_subclass_may_say_how_its_state_is_set(torch: Any, subclass: Any) -> None:
    def set_state(self: Any, state: Any) -> None:
        self.__dict__.update(state, restored=True)

    subclass.__setstate__ = set_state
    x = torch.ones(2).as_subclass(subclass)
    x.extra = 1

    assert pickled(x).__dict__ == {"extra": 1, "restored": True}


@EVERY
def test_parameters_stay_parameters(torch: Any, copied: Copy) -> None:
    for requires_grad in (True, False):
        made = copied(torch.nn.Parameter(torch.ones(2), requires_grad=requires_grad))
        assert type(made) is torch.nn.Parameter
        assert (made.requires_grad, made.tolist()) == (requires_grad, [1.0, 1.0])


def test_attributes_and_gradients_of_parameters_are_not_copied_deeply(torch: Any) -> None:
    p = torch.nn.Parameter(torch.ones(2))
    p.tag = "x"
    (p * 2).sum().backward()

    assert pickled(p).tag == copy.copy(p).tag == "x"
    made = copy.deepcopy(p)
    assert (made.__dict__, made.grad) == ({}, None)


@NEW
def test_a_module_is_copied_with_its_hooks_and_shared_parameters(torch: Any, copied: Copy) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh(), torch.nn.Linear(2, 2))
    model[2].weight = model[0].weight
    model[0].register_forward_hook(doubled)
    data = torch.ones(1, 2)
    made = copied(model)

    assert made[2].weight is made[0].weight
    assert made[0].weight is not model[0].weight
    assert torch.equal(made(data), model(data))
    assert len(made[0]._forward_hooks) == 1


def doubled(module: Any, inputs: Any, output: Any) -> Any:
    return output * 2


@EVERY
def test_dtypes_devices_sizes_layouts_and_formats(torch: Any, copied: Copy) -> None:
    for one in (torch.float32, torch.bfloat16, torch.strided, torch.contiguous_format):
        assert copied(one) is one
    for each in (torch.device("cpu"), torch.device("cpu", 0), torch.Size([2, 3])):
        made = copied(each)
        assert made == each
        assert type(made) is type(each)
        assert repr(made) == repr(each)


@EVERY
def test_a_generator_goes_on_where_the_original_is(torch: Any, copied: Copy) -> None:
    generator = torch.Generator()
    generator.manual_seed(5)
    torch.rand(3, generator=generator)
    made = copied(generator)

    assert type(made) is torch.Generator
    assert made is not generator
    assert made.initial_seed() == 5
    assert torch.rand(3, generator=made).tolist() == torch.rand(3, generator=generator).tolist()


@EVERY
def test_a_node_cannot_be_copied_and_says_so(torch: Any, copied: Copy) -> None:
    x = leaf(torch, 1.0)
    y = x * 2
    assert raises(TypeError, lambda: copied(y.grad_fn)) == "cannot pickle 'MulBackward0' object"
    accumulate = y.grad_fn.next_functions[0][0]
    assert raises(TypeError, lambda: copied(accumulate)) == "cannot pickle 'AccumulateGrad' object"


@EVERY
@pytest.mark.parametrize("name", ["float16", "bfloat16", "int8", "uint8", "bool", "complex64"])
def test_every_dtype_and_empty_and_0_dim_tensors(torch: Any, copied: Copy, name: str) -> None:
    for x in (torch.ones(2, 3), torch.ones(()), torch.empty(0, 3)):
        given = x.to(getattr(torch, name))
        made = copied(given)
        assert made.dtype == given.dtype
        assert made.shape == given.shape
        assert made.tolist() == given.tolist()


def test_every_protocol_of_pickle(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        file = io.BytesIO()
        pickle.dump(x, file, protocol)
        file.seek(0)
        assert pickle.load(file).tolist() == [1.0, 2.0]


def test_a_copy_may_be_written_to(torch: Any) -> None:
    for copied in (copy.deepcopy, pickled):
        x = torch.zeros(2, 2)
        for made in (copied(x), copied(x.t()), copied(x[1])):
            made.add_(1)
        assert x.sum().item() == 0.0
