"""`Variable._execution_engine.run_backward`, nodes called by hand, and nodes made by hand."""

from __future__ import annotations

from typing import Any

from tests.runtime.both import function, leaf, names, raises


def run(torch: Any, *given: Any, **named: Any) -> Any:
    return torch.autograd.Variable._execution_engine.run_backward(*given, **named)


def test_the_engine_returns_gradients_or_adds_them(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    seed = torch.ones(2, dtype=torch.float64)

    (found,) = run(torch, (x * 3,), (seed,), False, False, (x,), allow_unreachable=True)
    assert (found.tolist(), x.grad) == ([3.0, 3.0], None)
    assert run(torch, (x * 3,), (seed,), False, False, (), True, accumulate_grad=True) is None
    assert x.grad.tolist() == [3.0, 3.0]


def test_the_engine_says_what_it_was_not_given(torch: Any) -> None:
    x = leaf(torch, 1.0)
    y, one = x * 2, torch.ones(1, dtype=torch.float64)
    edge = torch.autograd.graph.get_gradient_edge(y)
    told = {
        "tensors argument is expected to be a tuple, but got Tensor": (y, one),
        "grad_tensors argument is expected to be a tuple, but got Tensor": ((y,), one),
        "got 1 tensors and 0 gradients": ((y,), ()),
        "element 0 of tensors tuple is neither a Tensor nor a GradientEdge": ((1,), (one,)),
        "element 0 of gradients tuple is not a Tensor or None": ((y,), (1,)),
        "element 0 of gradients tuple is None, but the corresponding Tensor requires grad": (
            (y,),
            (None,),
        ),
        "element 0 of tensors does not require grad and does not have a grad_fn": (
            (one,),
            (one,),
        ),
    }
    for text, given in told.items():
        assert raises(RuntimeError, lambda given=given: run(torch, *given, False, False)) == text
    assert (
        raises(RuntimeError, lambda: run(torch, (y,), (one,), False, False, [x], True))
        == "inputs to run_backward must be a tuple"
    )
    assert (
        raises(RuntimeError, lambda: run(torch, (edge,), (one,), False, False, (1,), True))
        == "all inputs have to be Tensors or GradientEdges, but got int"
    )


def test_the_engine_s_arguments_are_refused_as_those_of_a_c_function(torch: Any) -> None:
    named = {"grad_tensors": (), "keep_graph": 1, "create_graph": 1}
    told: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
        "function missing required argument 'tensors' (pos 1)": ((), {}),
        "function missing required argument 'create_graph' (pos 4)": ((1, 2, 3), {}),
        "function takes at most 7 arguments (8 given)": (tuple(range(8)), {}),
        "'wrong' is an invalid keyword argument for this function": (((),), {**named, "wrong": 3}),
        "argument for function given by name ('tensors') and position (1)": (
            ((),),
            {**named, "tensors": ()},
        ),
        "'str' object cannot be interpreted as an integer": (((), (), "x", False), {}),
    }
    for text, (given, more) in told.items():
        assert raises(TypeError, lambda g=given, m=more: run(torch, *g, **m)) == text
    callback = torch.autograd.Variable._execution_engine.queue_callback
    text = "_EngineBase.queue_callback() takes exactly one argument (0 given)"
    assert raises(TypeError, callback) == text


def test_the_engine_refuses_inputs_that_nothing_leads_to_unless_it_may_not(torch: Any) -> None:
    y, aside = leaf(torch, 1.0) * 2, leaf(torch, 1.0)
    one = torch.ones(1, dtype=torch.float64)

    assert "appears to not have been used in the graph" in raises(
        RuntimeError, lambda: run(torch, (y,), (one,), True, False, (aside,))
    )
    assert run(torch, (y,), (one,), True, False, (aside,), allow_unreachable=True) == (None,)


def test_every_engine_is_the_engine(torch: Any) -> None:
    engine = torch._C._ImperativeEngine()

    assert isinstance(torch.autograd.Variable._execution_engine, torch._C._ImperativeEngine)
    assert engine.is_checkpoint_valid()
    assert raises(RuntimeError, lambda: engine.queue_callback(print)) == (
        "Final callbacks can only be installed during backward pass."
    )


def test_a_node_called_by_hand_takes_as_many_tensors_as_it_has_inputs(torch: Any) -> None:
    node = (leaf(torch, 1.0) ** 2).grad_fn
    one = torch.ones(1, dtype=torch.float64)

    assert node(one).tolist() == [2.0]
    assert raises(TypeError, node) == "expected 1 arguments, got 0 instead"
    assert raises(TypeError, lambda: node(one, one)) == "expected 1 arguments, got 2 instead"
    assert raises(TypeError, lambda: node(1)) == "argument 0 is not a Variable"
    assert raises(TypeError, lambda: node(one, a=1)) == "keyword arguments are not supported"
    assert raises(TypeError, node.next_functions[0][0]) == "expected 1 arguments, got 0 instead"


def test_nodes_of_operations_are_made_by_operations_only(torch: Any) -> None:
    kind = type((leaf(torch, 1.0) * 2).grad_fn)

    assert raises(TypeError, kind) == "cannot create 'MulBackward0' instances"


def test_node_is_above_no_class_and_asks_of_all(torch: Any) -> None:
    node, functions = torch.autograd.graph.Node, torch._C._functions
    y = leaf(torch, 1.0).exp()
    mine = function(torch, lambda ctx, x: x * 2, lambda ctx, grad: grad).apply(y)

    assert isinstance(y.grad_fn, node)
    assert isinstance(mine.grad_fn, node)
    assert all(node not in type(each.grad_fn).mro() for each in (y, mine))
    assert issubclass(functions.AccumulateGrad, node)
    assert issubclass(functions.DelayedError, node)
    assert issubclass(torch.autograd.function.BackwardCFunction, node)
    assert not any(isinstance(each, node) for each in (None, 1, node, functions.AccumulateGrad))
    assert raises(TypeError, node).startswith("Can't instantiate abstract class Node")


def test_classes_of_nodes_are_found_by_name(torch: Any) -> None:
    functions = torch._C._functions
    y = leaf(torch, 1.0).exp()

    assert type(y.grad_fn) is functions.ExpBackward0
    assert isinstance(y.grad_fn.next_functions[0][0], functions.AccumulateGrad)
    written = torch.ones(2, requires_grad=True).clone()
    written[:1].add_(1)
    assert isinstance(written.grad_fn, functions.CopySlices)


def test_classes_of_nodes_are_listed_before_any_is_made(torch: Any) -> None:
    listed = dir(torch._C._functions)

    assert {"AccumulateGrad", "CopySlices", "LinalgSlogdetBackward0", "__doc__"} <= {*listed}
    assert torch._C._functions.RoundBackward1.__name__ == "RoundBackward1"


def test_what_a_node_says_of_itself_is_not_to_be_written(torch: Any) -> None:
    node = leaf(torch, 1.0).exp().grad_fn
    mine = function(torch, lambda ctx, x: x * 2, lambda ctx, grad: grad).apply(leaf(torch, 1.0))

    text = "attribute 'metadata' of 'ExpBackward0' objects is not writable"
    assert raises(AttributeError, lambda: setattr(node, "metadata", 1)) == text
    text = "attribute 'metadata' of 'torch._C._FunctionBase' objects is not writable"
    assert raises(AttributeError, lambda: setattr(mine.grad_fn, "metadata", 1)) == text
    assert raises(AttributeError, lambda: delattr(node, "_input_metadata")).endswith("not writable")


def test_a_delayed_error_is_raised_where_a_backward_reaches_it(torch: Any) -> None:
    x = leaf(torch, 1.0)
    y = torch._C._functions.DelayedError("Boom!", 1)(x)

    assert (y.grad_fn.name(), names(y.grad_fn)) == (
        "torch::autograd::Error",
        [("AccumulateGrad", 0)],
    )
    assert torch.autograd.grad((y * 2).sum(), y)[0].tolist() == [2.0]
    assert raises(RuntimeError, (y * 2).sum().backward) == "Boom!"
    first, second = torch._C._functions.DelayedError("Boom!", 2)(x, torch.ones(1))
    assert (first.output_nr, second.output_nr, second.requires_grad) == (0, 1, True)
    assert not torch._C._functions.DelayedError("Boom!", 1)(torch.ones(1)).requires_grad


def test_an_undefined_gradient_is_none_and_not_zeros(torch: Any) -> None:
    found: list[Any] = []

    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(False)
        return x * 2

    def backward(ctx: Any, grad: Any) -> Any:
        found.append(grad)
        return grad

    y = function(torch, forward, backward).apply(leaf(torch, 1.0))
    z = torch._C._functions.UndefinedGrad()(y)
    z.backward()

    assert found == [None]
    assert (type(z.grad_fn).__name__, names(z.grad_fn)) == (
        "UndefinedGradBackward",
        [("MineBackward", 0)],
    )


def test_odd_nodes_say_what_they_were_not_given(torch: Any) -> None:
    functions, x = torch._C._functions, leaf(torch, 1.0)

    assert raises(RuntimeError, functions.DelayedError) == "Requires two arguments, got 0"
    assert raises(RuntimeError, lambda: functions.DelayedError(1, 2)) == (
        "argument 'msg' must be a string"
    )
    assert raises(RuntimeError, lambda: functions.UndefinedGrad(1)) == (
        "Requires zero arguments, got 1"
    )
    assert raises(TypeError, lambda: functions.DelayedError("", 2)(x)) == (
        "expected 2 arguments, got 1 instead"
    )


def test_resize_keeps_the_elements(torch: Any) -> None:
    import importlib

    resize = importlib.import_module(f"{torch.__name__}.autograd._functions").Resize
    x = torch.arange(6.0, requires_grad=True)
    y = resize.apply(x, (2, 3))

    y.backward(torch.arange(6.0).view(2, 3))

    assert (type(y.grad_fn).__name__, x.grad.tolist()) == ("ResizeBackward", [0, 1, 2, 3, 4, 5])
    assert raises(RuntimeError, lambda: resize.apply(x, (2, 2))).startswith(
        "requested resize to 2x2 (4 elements in total), but the given tensor has a size of 6"
    )
