"""Hooks of modules: when they are called, with what, in which order, and what they may change."""

from __future__ import annotations

import copy
import gc
import importlib
import pickle
import warnings
from collections import OrderedDict, namedtuple
from typing import Any

import pytest

from gradscope.trace import schema
from gradscope.trace.schema.events import HookKind
from gradscope.trace.trace import Trace
from tests.runtime.rules.conftest import Seen

MIXED = "Cannot use both regular backward hooks and full backward hooks on a single Module"
TOO_MANY = "Backward{} hook returned an invalid number of grad_{}, got 2, but expected 1"


def numbers(values: Any) -> Any:
    """Gradients as lists."""
    return [None if value is None else value.tolist() for value in values]


def own_hooks(trace: Trace) -> list[tuple[Any, ...]]:
    """The calls of modules' hooks: kind, position, name of the node, type of the module."""
    nodes = {row.id: row.name for row in trace.rows(schema.Node)}
    modules = {row.id: row.type.rpartition(".")[2] for row in trace.rows(schema.Module)}
    return [
        (HookKind(e.hook), e.index, nodes.get(e.node), modules[e.module])
        for e in trace.events(schema.HookBegin)
        if e.module != schema.NONE
    ]


def two(torch: Any) -> Any:
    return torch.ones(2, requires_grad=True)


def doubling(torch: Any) -> Any:
    class Doubling(torch.nn.Module):
        def forward(self, x: Any, *rest: Any, scale: float = 1.0) -> Any:
            return x * 2 * scale

    return Doubling()


@pytest.fixture(autouse=True)
def no_global_hooks(torch: Any) -> Any:
    """Leave no hooks of all modules behind, nor whether they are of the new or the old way."""
    yield
    if torch.__name__ == "torch":
        torch.nn.modules.module._global_is_full_backward_hook = None
    else:
        from gradscope.runtime.nn.modules.module_parts.global_hooks import everywhere

        everywhere.backward_is_full = None
        assert not everywhere.any()


# -- forward ----------------------------------------------------------------------------------


def test_forward_hooks_run_in_order_the_global_ones_first(torch: Any, seen: Seen) -> None:
    module, order = doubling(torch), []
    of_all = torch.nn.modules.module

    def says(word: str) -> Any:
        return lambda *_: order.append(word)

    handles = [
        module.register_forward_pre_hook(says("pre")),
        module.register_forward_pre_hook(says("pre, prepended"), prepend=True),
        module.register_forward_hook(says("after")),
        module.register_forward_hook(says("after, prepended"), prepend=True),
        of_all.register_module_forward_pre_hook(says("global pre")),
        of_all.register_module_forward_hook(says("global after")),
    ]
    module(two(torch))
    assert order == [
        "global pre", "pre, prepended", "pre", "global after", "after, prepended", "after",
    ]  # fmt: skip
    for handle in handles:
        handle.remove()
    module(two(torch))
    assert len(order) == 6

    def shows(trace: Trace) -> bool:
        kinds = [HookKind.MODULE_FORWARD_PRE] * 3 + [HookKind.MODULE_FORWARD] * 3
        return own_hooks(trace) == [
            (kind, index, None, "Doubling")
            for kind, index in zip(kinds, [0, 1, 2] * 2, strict=True)
        ]

    seen(shows)


def test_a_pre_hook_replaces_the_arguments_a_hook_the_result(torch: Any) -> None:
    module = doubling(torch)
    module.register_forward_pre_hook(lambda m, args: args[0] + 1)
    module.register_forward_pre_hook(lambda m, args: (args[0] * 10, "more"))
    inputs: list[Any] = []
    module.register_forward_hook(lambda m, args, out: inputs.append(args) or out + 1)
    module.register_forward_hook(lambda m, args, out: {"result": out})

    result = module(torch.ones(1))

    assert inputs[0][1] == "more"
    assert inputs[0][0].item() == 20
    assert result["result"].item() == 41


def test_hooks_with_kwargs_see_and_replace_them(torch: Any) -> None:
    module, told = doubling(torch), []
    module.register_forward_pre_hook(
        lambda m, args, kwargs: (args, {**kwargs, "scale": 5}), with_kwargs=True
    )
    module.register_forward_hook(lambda m, args, kwargs, out: told.append(kwargs), with_kwargs=True)
    handle = torch.nn.modules.module.register_module_forward_hook(
        lambda m, args, kwargs, out: told.append(len(args)), with_kwargs=True
    )
    with handle:
        assert module(torch.ones(1), scale=3).item() == 10
    # PyTorch keeps this entry of a hook that is gone, and later tests would be warned of it.
    torch.nn.modules.module._global_forward_hooks_with_kwargs.clear()
    assert told == [1, {"scale": 5}]

    module.register_forward_pre_hook(lambda m, args, kwargs: args, with_kwargs=True)
    with pytest.raises(RuntimeError, match=r"must return None or a tuple of \(new_args, new_kw"):
        module(torch.ones(1))


def test_a_hook_that_is_always_called_sees_what_there_was_before_the_error(torch: Any) -> None:
    class Failing(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            raise ZeroDivisionError("forward")

    module, told = Failing(), []
    module.register_forward_hook(lambda m, a, out: told.append(out) or 7, always_call=True)
    module.register_forward_hook(lambda m, a, out: told.append("never"))
    module.register_forward_hook(
        lambda m, a, kwargs, out: told.append((kwargs, out)), always_call=True, with_kwargs=True
    )
    everywhere = torch.nn.modules.module.register_module_forward_hook(
        lambda m, a, out: told.append("global"), always_call=True
    )
    with everywhere, pytest.raises(ZeroDivisionError, match="forward"):
        module(1)
    assert told == ["global", None, ({}, 7)]


def test_an_error_in_a_hook_that_is_always_called_is_silenced_by_the_first(torch: Any) -> None:
    class Failing(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            raise ZeroDivisionError("forward")

    def broken(*_: Any) -> None:
        raise KeyError("hook")

    module, told = Failing(), []
    module.register_forward_hook(broken, always_call=True)
    module.register_forward_hook(lambda *_: told.append("called"), always_call=True)
    text = "module forward hook with ``always_call=True`` raised an exception that was silenced as"
    everywhere = torch.nn.modules.module.register_module_forward_hook(broken, always_call=True)
    with (
        everywhere,
        warnings.catch_warnings(record=True) as caught,
        pytest.raises(ZeroDivisionError),
    ):
        warnings.simplefilter("always")
        module(1)
    texts = [str(each.message) for each in caught]
    assert texts == [f"{of}{text} another error was raised in forward: 'hook'" for of in
                     ("global ", "")]  # fmt: skip
    assert told == ["called"]


def test_a_hook_that_raises_is_not_called_again_for_its_own_error(torch: Any) -> None:
    module, told = doubling(torch), []

    def broken(*_: Any) -> None:
        told.append("broken")
        raise KeyError("hook")

    module.register_forward_hook(broken, always_call=True)
    module.register_forward_hook(lambda *_: told.append("next"), always_call=True)
    with pytest.raises(KeyError, match="hook"):
        module(two(torch))
    assert told == ["broken", "next"]


def test_hooks_may_be_removed_and_added_while_they_run(torch: Any) -> None:
    module, order = doubling(torch), []

    def once(*_: Any) -> None:
        order.append("once")
        handle.remove()
        later.remove()
        module.register_forward_hook(lambda *_: order.append("added"))

    handle = module.register_forward_hook(once)
    later = module.register_forward_hook(lambda *_: order.append("later"))
    module(two(torch))
    assert order == ["once", "later"]  # those that were there when the call came to its hooks
    module(two(torch))
    assert order == ["once", "later", "added"]


def test_hooks_put_straight_into_the_dict_are_called(torch: Any) -> None:
    module, order = doubling(torch), []
    module._forward_hooks[-1] = lambda *_: order.append("put")
    module(two(torch))
    module._forward_hooks.clear()
    module(two(torch))
    assert order == ["put"]
    module._forward_pre_hooks = OrderedDict({5: lambda *_: order.append("assigned")})
    module(two(torch))
    module._forward_pre_hooks.clear()
    module(two(torch))
    module._forward_pre_hooks[6] = lambda *_: order.append("later")
    module(two(torch))
    assert order == ["put", "assigned", "later"]


def test_a_forgotten_init_is_said_as_a_missing_attribute(torch: Any) -> None:
    class Forgetful(torch.nn.Module):
        def __init__(self) -> None:
            pass

        def forward(self, x: Any) -> Any:
            return x

    with pytest.raises(AttributeError, match="'Forgetful' object has no attribute '_"):
        Forgetful()(1)


# -- handles ----------------------------------------------------------------------------------


def test_a_handle_removes_its_hook_as_often_as_one_likes(torch: Any) -> None:
    module, order = doubling(torch), []
    with module.register_forward_hook(lambda *_: order.append(1), always_call=True) as handle:
        assert isinstance(handle, torch.utils.hooks.RemovableHandle)
        module(two(torch))
    handle.remove()
    module(two(torch))
    assert order == [1]
    assert not module._forward_hooks_always_called


def test_a_handle_of_a_dead_module_does_nothing(torch: Any) -> None:
    handle = doubling(torch).register_forward_hook(print)
    gc.collect()
    handle.remove()
    assert handle.hooks_dict_ref() is None


def test_handles_have_numbers_that_rise(torch: Any) -> None:
    module = doubling(torch)
    first, second = module.register_forward_hook(print), module.register_forward_pre_hook(print)
    assert first.id < second.id < torch.utils.hooks.RemovableHandle.next_id


def test_a_handle_pickled_with_its_module_removes_the_copy_s_hook(torch: Any) -> None:
    module = torch.nn.Identity()
    handle = module.register_forward_hook(print, with_kwargs=True)
    again, again_handle = pickle.loads(pickle.dumps((module, handle)))
    assert (list(again._forward_hooks.values()), again_handle.id) == ([print], handle.id)
    again_handle.remove()
    assert not again._forward_hooks
    assert not again._forward_hooks_with_kwargs
    assert list(module._forward_hooks) == [handle.id]
    assert torch.utils.hooks.RemovableHandle.next_id > handle.id


def test_a_copy_has_the_same_hooks_in_dicts_of_its_own(torch: Any) -> None:
    module, called = torch.nn.Identity(), []

    def hook(*_: Any) -> None:
        called.append(1)

    module.register_forward_hook(hook)
    again = copy.deepcopy(module)
    again.register_forward_hook(lambda *_: called.append(2))
    again(1)
    module(1)
    assert len(called) == 3
    shallow = copy.copy(module)
    shallow(1)
    assert len(called) == 4


# -- backward ---------------------------------------------------------------------------------


def test_full_backward_hooks_see_both_ends_of_the_module(torch: Any, seen: Seen) -> None:
    module, told = torch.nn.Sequential(doubling(torch), doubling(torch)), []
    module.register_full_backward_pre_hook(lambda m, out: told.append(("pre", numbers(out))))
    module.register_full_backward_hook(
        lambda m, into, out: told.append(("full", numbers(into), numbers(out)))
    )
    x = two(torch)
    y = module(x)
    assert y.grad_fn.name() == "BackwardHookFunctionBackward"
    (y * 3).sum().backward()
    assert told == [("pre", [[3.0, 3.0]]), ("full", [[12.0, 12.0]], [[3.0, 3.0]])]
    assert x.grad.tolist() == [12.0, 12.0]

    def shows(trace: Trace) -> bool:
        node = "BackwardHookFunctionBackward"
        return own_hooks(trace) == [
            (HookKind.MODULE_BACKWARD_PRE, 0, node, "Sequential"),
            (HookKind.MODULE_BACKWARD, 0, node, "Sequential"),
        ]

    seen(shows)


def test_backward_hooks_run_in_order_the_global_ones_first(torch: Any) -> None:
    module, order = doubling(torch), []
    of_all = torch.nn.modules.module

    def says(word: str) -> Any:
        return lambda *_: order.append(word)

    module.register_full_backward_hook(says("own"))
    module.register_full_backward_hook(says("own, prepended"), prepend=True)
    module.register_full_backward_pre_hook(says("pre"))
    module.register_full_backward_pre_hook(says("pre, prepended"), prepend=True)
    with (
        of_all.register_module_full_backward_hook(says("global")),
        of_all.register_module_full_backward_pre_hook(says("global pre")),
    ):
        y = module(two(torch))
    y.sum().backward()  # the hooks of the call are those there were when it was made
    assert order == ["global pre", "pre, prepended", "pre", "global", "own, prepended", "own"]


def test_backward_hooks_replace_gradients(torch: Any) -> None:
    module, told = doubling(torch), []
    module.register_full_backward_pre_hook(lambda m, out: (out[0] * 10,))
    module.register_full_backward_hook(lambda m, into, out: (into[0] + 1,))
    module.register_full_backward_hook(lambda m, into, out: told.append(numbers(into + out)))
    x = two(torch)
    module(x).sum().backward()
    assert told == [[[21.0, 21.0], [10.0, 10.0]]]
    assert x.grad.tolist() == [21.0, 21.0]


@pytest.mark.parametrize(
    ("kind", "returned", "text"),
    [
        ("full_backward_pre", lambda g: (g, g), TOO_MANY.format(" pre", "output")),
        ("full_backward", lambda g: (g, g), TOO_MANY.format("", "input")),
        ("full_backward", lambda g: (g[:1],), "hook 'hook' has changed the size of value"),
        ("full_backward", lambda g: (1,), "expected Variable, but hook returned 'int'"),
    ],
)  # fmt: skip
def test_what_a_backward_hook_may_not_return(
    torch: Any, kind: str, returned: Any, text: str
) -> None:
    module = doubling(torch)
    getattr(module, f"register_{kind}_hook")(lambda m, *grads: returned(grads[0][0]))
    with pytest.raises((RuntimeError, TypeError)) as refused:
        module(two(torch)).sum().backward()
    assert str(refused.value).splitlines()[0] == text


def test_what_is_no_tensor_has_no_gradient(torch: Any) -> None:
    class Mixed(torch.nn.Module):
        def forward(self, a: Any, word: str, b: Any, whole: Any) -> Any:
            return a * b, word, whole, b.detach()

    module, told = Mixed(), []
    module.register_full_backward_hook(lambda m, into, out: told.append((into, out)))
    a, b = two(torch), torch.ones(2)
    out = module(a, "word", b, torch.tensor([1, 2]))
    assert (type(out), out[1], out[2].tolist()) == (tuple, "word", [1, 2])
    assert [t.requires_grad for t in (out[0], out[2], out[3])] == [True, False, False]
    out[0].sum().backward()
    into, grads = told[0]
    assert numbers(into) == [[1.0, 1.0], None, [0.0, 0.0], [0, 0]]
    assert numbers(grads) == [[1.0, 1.0], None, None, None]


def test_a_named_tuple_stays_one(torch: Any) -> None:
    Pair = namedtuple("Pair", ["one", "other"])  # noqa: PYI024

    class Splitting(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return Pair(x * 2, x * 3)

    module, told = Splitting(), []
    module.register_full_backward_hook(lambda m, into, out: told.append((into, out)))
    out = module(two(torch))
    assert type(out) is Pair
    out.other.sum().backward()
    assert numbers(told[0][0]) == [[3.0, 3.0]]
    assert numbers(told[0][1])[1] == [1.0, 1.0]


@pytest.mark.parametrize("result", ["dict", "list"])
def test_other_results_are_left_as_they_are_with_a_warning(torch: Any, result: str) -> None:
    class Nested(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return {"y": x * 2} if result == "dict" else [x * 2]

    module, told = Nested(), []
    module.register_full_backward_hook(lambda *_: told.append(1))
    text = f"should be a Tensor or a tuple of Tensors but received <class '{result}'>"
    with pytest.warns(UserWarning, match=text):
        out = module(two(torch))
    (out["y"] if result == "dict" else out[0]).sum().backward()
    assert told == []  # the gradients arrive at the input without having come from the output


def test_without_inputs_that_require_grad_hooks_run_at_the_output(torch: Any) -> None:
    module, told = torch.nn.Linear(2, 1), []
    module.register_full_backward_hook(lambda m, into, out: told.append((into, numbers(out))))
    with pytest.warns(UserWarning, match="^Full backward hook is firing when gradients") as caught:
        module(torch.ones(1, 2)).sum().backward()
    assert caught[0].filename == __file__
    assert told == [((None,), [[[1.0]]])]

    module.register_full_backward_hook(lambda m, into, out: (out[0],))
    with (
        pytest.warns(UserWarning, match="firing"),
        pytest.raises(RuntimeError, match="should always return None or None for all gradients"),
    ):
        module(torch.ones(1, 2)).sum().backward()


def test_no_hooks_run_where_no_gradient_will(torch: Any) -> None:
    module, told = torch.nn.Linear(2, 1), []
    module.register_full_backward_hook(lambda *_: told.append(1))
    with torch.no_grad():
        y = module(torch.ones(1, 2, requires_grad=True))
    assert y.grad_fn is None
    frozen = torch.nn.ReLU()
    frozen.register_full_backward_hook(lambda *_: told.append(1))
    assert frozen(torch.ones(2)).grad_fn is None
    assert told == []


def test_of_several_outputs_the_unused_ones_have_no_gradient(torch: Any) -> None:
    class Splitting(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return x * 2, y * 3

    module, told = Splitting(), []
    module.register_full_backward_hook(lambda m, into, out: told.append((into, out)))
    x, y = two(torch), two(torch)
    module(x, y)[0].sum().backward()
    assert [numbers(grads) for grads in told[0]] == [
        [[2.0, 2.0], [0.0, 0.0]],  # zeros where the other node of the module got none
        [[1.0, 1.0], None],
    ]
    assert y.grad.tolist() == [0.0, 0.0]


def test_a_module_called_twice_has_its_hooks_called_for_each(torch: Any) -> None:
    module, told = doubling(torch), []
    module.register_full_backward_hook(lambda m, into, out: told.append(numbers(into + out)))
    x = two(torch)
    module(module(x)).sum().backward()
    assert told == [[[2.0, 2.0], [1.0, 1.0]], [[4.0, 4.0], [2.0, 2.0]]]
    assert x.grad.tolist() == [4.0, 4.0]


def test_a_second_backward_calls_the_hooks_again(torch: Any) -> None:
    module, told = doubling(torch), []
    module.register_full_backward_hook(lambda m, into, out: told.append(1))
    y = module(two(torch)).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert told == [1, 1]


def test_double_backward_goes_through_the_hooks(torch: Any) -> None:
    class Square(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x * x

    module, told = Square(), []
    module.register_full_backward_hook(lambda m, into, out: told.append(numbers(into)))
    x = two(torch)
    (first,) = torch.autograd.grad(module(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert first.tolist() == [2.0, 2.0]
    assert second.tolist() == [2.0, 2.0]
    assert told[0] == [[2.0, 2.0]]


@pytest.mark.parametrize("which", ["input", "output"])
def test_what_went_through_a_hooked_module_may_not_be_written_to(torch: Any, which: str) -> None:
    module = torch.nn.ReLU(inplace=which == "input")
    module.register_full_backward_hook(lambda *_: None)
    x = two(torch) * 1
    with pytest.raises(RuntimeError) as refused:
        module(x).mul_(2)
    assert str(refused.value).startswith(
        "Output 0 of BackwardHookFunction is a view and is being modified inplace. This view was "
        "created inside a custom Function (or because an input was returned as-is)"
    )


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_hooks_of_a_checkpointed_module_run_again_with_it(torch: Any, use_reentrant: bool) -> None:
    class Square(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x * x

    checkpoint = importlib.import_module(f"{torch.__name__}.utils.checkpoint").checkpoint
    module, order = Square(), []
    module.register_forward_pre_hook(lambda *_: order.append("pre"))
    module.register_full_backward_pre_hook(lambda m, out: (out[0] * 10,))
    module.register_full_backward_hook(lambda m, into, out: order.append(numbers(into + out)))
    x = two(torch)
    y = checkpoint(module, x, use_reentrant=use_reentrant)
    assert order == ["pre"]
    y.sum().backward()
    assert order == ["pre", "pre", [[20.0, 20.0], [10.0, 10.0]]]
    assert x.grad.tolist() == [20.0, 20.0]


# -- the old way ------------------------------------------------------------------------------


def test_the_two_ways_do_not_mix(torch: Any) -> None:
    one, other = doubling(torch), doubling(torch)
    one.register_backward_hook(print)
    other.register_full_backward_hook(print)
    with pytest.raises(RuntimeError, match=MIXED):
        one.register_full_backward_hook(print)
    with pytest.raises(RuntimeError, match=MIXED):
        other.register_backward_hook(print)


@pytest.mark.parametrize("first", ["register_module_backward_hook",
                                   "register_module_full_backward_hook"])  # fmt: skip
def test_the_two_ways_do_not_mix_for_all_modules_either(torch: Any, first: str) -> None:
    of_all = torch.nn.modules.module
    names = {"register_module_backward_hook", "register_module_full_backward_hook"}
    with getattr(of_all, first)(lambda *_: None):
        (second,) = names - {first}
        with pytest.raises(RuntimeError, match="as a global Module hook"):
            getattr(of_all, second)(lambda *_: None)


def test_hooks_of_the_old_way_sit_on_the_last_node(torch: Any, seen: Seen) -> None:
    class Square(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x * x

    module, told = Square(), []
    module.register_backward_hook(lambda m, into, out: told.append(numbers(into + out)))
    module.register_backward_hook(lambda m, into, out: tuple(g * 10 for g in into))
    x = two(torch) * 1
    x.retain_grad()
    module(x).sum().backward()
    assert told == [[[1.0, 1.0]] * 3]
    assert x.grad.tolist() == [20.0, 20.0]

    def shows(trace: Trace) -> bool:
        ends = [e for e in trace.events(schema.HookEnd) if e.hook == HookKind.MODULE_BACKWARD]
        return own_hooks(trace) == [
            (HookKind.MODULE_BACKWARD, index, "MulBackward0", "Square") for index in (0, 1)
        ] and [e.replaced for e in ends] == [False, True]

    seen(shows)


@pytest.mark.parametrize(
    ("forward", "text"),
    [
        (lambda x: [x * 2], "does not return a single Tensor or a tuple of Tensors"),
        (lambda x: (x * 2, x * 3), "outputs are generated by different autograd Nodes"),
        (lambda x: (x * 2) * 3, "the forward contains multiple autograd Nodes"),
        (lambda x: {"word": "word", "y": x * 2}, "does not return a single Tensor"),
    ],
)
def test_the_old_way_warns_of_what_it_does_not_see(torch: Any, forward: Any, text: str) -> None:
    class Given(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return forward(x)

    module = Given()
    module.register_backward_hook(lambda *_: None)
    with pytest.warns(FutureWarning, match=f"Using (a )?non-full backward hook.*{text}"):
        module(two(torch))


def test_the_old_way_warns_of_arguments_that_are_no_tensors(torch: Any) -> None:
    module = doubling(torch)
    module.register_backward_hook(lambda *_: None)
    with pytest.warns(FutureWarning, match="does not take as input a single Tensor or a tuple"):
        module(two(torch), "word")


# -- registration -----------------------------------------------------------------------------


def test_hooks_see_what_modules_are_given_and_may_replace_it(torch: Any) -> None:
    of_all, nn = torch.nn.modules.module, torch.nn
    told: list[Any] = []

    def hook(module: Any, name: str, value: Any) -> Any:
        told.append((type(module).__name__, name, type(value).__name__))

    with (
        of_all.register_module_parameter_registration_hook(hook),
        of_all.register_module_buffer_registration_hook(hook),
        of_all.register_module_module_registration_hook(hook),
    ):
        module = nn.Module()
        module.weight = nn.Parameter(torch.ones(1))
        module.register_parameter("nothing", None)
        module.register_buffer("kept", torch.ones(1))
        module.kept = torch.zeros(1)
        module.part = nn.Identity()
        module.add_module("other", None)
    assert told == [
        ("Module", "weight", "Parameter"),
        ("Module", "kept", "Tensor"),
        ("Module", "kept", "Tensor"),
        ("Module", "part", "Identity"),
        ("Module", "other", "NoneType"),
    ]
    three = nn.Parameter(torch.full((1,), 3.0))
    with of_all.register_module_parameter_registration_hook(lambda *_: three):
        module.weight = nn.Parameter(torch.ones(1))
    assert module.weight is three


# -- state ------------------------------------------------------------------------------------


def test_state_hooks_run_before_and_after(torch: Any) -> None:
    module, told = torch.nn.Sequential(torch.nn.Linear(1, 1)), []
    module.register_state_dict_pre_hook(lambda m, prefix, keep: told.append((prefix, keep)))
    module[0].register_state_dict_pre_hook(lambda m, prefix, keep: told.append((prefix, keep)))

    def rename(m: Any, state: Any, prefix: str, metadata: Any) -> None:
        told.append((sorted(state), prefix, metadata))
        state[f"{prefix}extra"] = 1

    module[0].register_state_dict_post_hook(rename)
    assert list(module.state_dict(keep_vars=True)) == ["0.weight", "0.bias", "0.extra"]
    assert told == [("", True), ("0.", True), (["0.bias", "0.weight"], "0.", {"version": 1})]


def test_a_public_state_hook_returns_none_a_private_one_may_replace(torch: Any) -> None:
    def replaces(m: Any, state: Any, prefix: str, metadata: Any) -> Any:
        return {"only": prefix}

    module = torch.nn.Sequential(torch.nn.Linear(1, 1))
    handle = module._register_state_dict_hook(replaces)
    assert module.state_dict() == {"only": ""}
    handle.remove()
    module.register_state_dict_post_hook(replaces)
    with pytest.raises(RuntimeError, match="state_dict post-hook must return None"):
        module.state_dict()
    with pytest.raises(RuntimeError, match="Cannot register the same function as the state dict"):
        module._register_state_dict_hook(replaces)


def test_load_hooks_run_before_and_after(torch: Any) -> None:
    module, told = torch.nn.Sequential(torch.nn.Linear(1, 1)), []

    def before(m: Any, state: Any, prefix: str, *rest: Any) -> None:
        told.append((type(m).__name__, sorted(state), prefix))
        state[f"{prefix}weight"] = state.pop(f"{prefix}old")

    def after(m: Any, keys: Any) -> None:
        told.append((type(m).__name__, keys.missing_keys, keys.unexpected_keys))
        keys.missing_keys.clear()

    module[0].register_load_state_dict_pre_hook(before)
    module.register_load_state_dict_post_hook(after)
    result = module.load_state_dict({"0.old": torch.full((1, 1), 5.0)})
    assert module[0].weight.item() == 5
    assert str(result) == "<All keys matched successfully>"
    assert told[0] == ("Linear", ["0.old"], "0.")
    assert told[1][0] == "Sequential"

    private: list[Any] = []
    module[0]._register_load_state_dict_pre_hook(lambda *args: private.append(len(args)))
    module.register_load_state_dict_post_hook(lambda m, keys: 1)
    with pytest.raises(AssertionError, match="not expected to return new values"):
        module.load_state_dict({"0.old": torch.ones(1, 1)}, strict=False)
    assert private == [7]


def test_a_load_hook_does_not_keep_its_module_alive_and_is_copied_with_it(torch: Any) -> None:
    module = torch.nn.Identity()
    module.register_load_state_dict_pre_hook(print)
    (hook,) = module._load_state_dict_pre_hooks.values()
    again = pickle.loads(pickle.dumps(module))
    (other,) = again._load_state_dict_pre_hooks.values()
    assert other.module() is again
    del module
    gc.collect()
    with pytest.raises(RuntimeError, match="You are trying to call the hook of a dead Module!"):
        hook()


def test_positional_arguments_of_state_dict_are_old(torch: Any) -> None:
    module = torch.nn.Linear(1, 1)
    with pytest.warns(FutureWarning, match="Positional args are being deprecated, use kwargs"):
        state = module.state_dict(OrderedDict(), "p.")
    assert list(state) == ["p.weight", "p.bias"]


# -- utils.hooks ------------------------------------------------------------------------------


def test_hooks_that_will_not_be_saved_are_warned_of(torch: Any) -> None:
    x = two(torch)
    x.register_hook(torch.utils.hooks.unserializable_hook(lambda g: None))
    torch.utils.hooks.warn_if_has_hooks(x)

    def forgotten(grad: Any) -> None: ...

    x.register_hook(forgotten)
    with pytest.warns(UserWarning, match="forgotten at .*will not be serialized"):
        torch.utils.hooks.warn_if_has_hooks(x)


def test_a_backward_hook_may_be_set_up_by_hand(torch: Any) -> None:
    told: list[Any] = []
    hook = torch.utils.hooks.BackwardHook(
        "module", [lambda m, into, out: told.append((m, numbers(into), numbers(out)))], []
    )
    x = two(torch)
    (inner,) = hook.setup_input_hook((x,))
    hook.setup_output_hook(inner * 4).sum().backward()
    assert told == [("module", [[4.0, 4.0]], [[1.0, 1.0]])]


def test_hooks_of_all_modules_can_be_assigned_and_are_heard(torch: Any) -> None:
    module, called, seen = torch.nn.modules.module, doubling(torch), []

    try:
        module._global_forward_hooks = OrderedDict({7: lambda *_: seen.append("all")})
        called(torch.ones(1))
        assert seen == ["all"]
        assert list(module._global_forward_hooks) == [7]
    finally:
        module._global_forward_hooks = OrderedDict()
    called(torch.ones(1))
    assert seen == ["all"]
