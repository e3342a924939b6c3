"""What a checkpoint refuses, and what it says when its second run is not the first one again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any

import pytest

from tests.runtime.both import leaf, raises
from tests.runtime.utils.test_checkpoint import BOTH, parts


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """What PyTorch logs for debug=True only its own handler can format, and pytest listens too."""
    monkeypatch.setattr(logging, "raiseExceptions", False)


def alternately(first: Callable[[Any], Any], second: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function that does one thing the first time and another thing ever after."""
    calls: list[int] = []

    def run(x: Any) -> Any:
        calls.append(1)
        return (first if len(calls) == 1 else second)(x)

    return run


def test_which_kind_it_is_should_be_said(torch: Any) -> None:
    x = leaf(torch, 1.0)
    text = (
        "^torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. "
        "Starting in PyTorch 2.9, calling checkpoint without use_reentrant will raise an exception."
    )
    with pytest.warns(UserWarning, match=text):
        y = parts(torch).checkpoint(torch.sin, x)
    assert type(y.grad_fn).__name__ == "CheckpointFunctionBackward"

    text = "^torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be"
    with pytest.warns(UserWarning, match=text):
        parts(torch).checkpoint_sequential([torch.sin, torch.cos], 1, x)


def test_inputs_without_gradients_are_warned_of(torch: Any) -> None:
    text = "None of the inputs have requires_grad=True. Gradients will be None"
    with pytest.warns(UserWarning, match=text):
        y = parts(torch).checkpoint(torch.sin, torch.ones(1), use_reentrant=True)
    assert not y.requires_grad
    with pytest.warns(UserWarning, match=text), torch.no_grad():
        parts(torch).check_backward_validity([torch.ones(1), 3])
    parts(torch).check_backward_validity([leaf(torch, 1.0)])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"use_reentrant": True, "k": 1, "l": 2}, "Unexpected keyword arguments: k,l"),
        (
            {"use_reentrant": True, "context_fn": lambda: (nullcontext(), nullcontext())},
            "Passing `context_fn` or `debug` is only supported when use_reentrant=False.",
        ),
        (
            {"use_reentrant": True, "debug": True},
            "Passing `context_fn` or `debug` is only supported when use_reentrant=False.",
        ),
        (
            {"use_reentrant": False, "determinism_check": "thorough"},
            "determinism_check should be one of ['default', 'none'], but got thorough",
        ),
        (
            {"use_reentrant": False, "debug": True, "context_fn": lambda: (None, None)},
            "debug=True is incompatible with non-default context_fn",
        ),
    ],
)
def test_options_that_do_not_go_together(torch: Any, options: dict[str, Any], text: str) -> None:
    x = leaf(torch, 1.0)
    assert raises(ValueError, lambda: parts(torch).checkpoint(torch.sin, x, **options)) == text


def test_a_sequential_takes_no_other_options(torch: Any) -> None:
    x = leaf(torch, 1.0)
    sequential = parts(torch).checkpoint_sequential
    assert (
        raises(ValueError, lambda: sequential([torch.sin], 1, x, use_reentrant=False, name=1))
        == "Unexpected keyword arguments: name"
    )


def test_fewer_tensors_the_second_time(torch: Any) -> None:
    run = alternately(lambda x: x.sin().cos(), lambda x: x.sin())
    y = parts(torch).checkpoint(run, leaf(torch, 1.0), use_reentrant=False)

    with pytest.raises(parts(torch).CheckpointError) as caught:
        y.backward()

    assert str(caught.value).startswith(
        "torch.utils.checkpoint: A different number of tensors was saved during the original "
        "forward and recomputation.\n"
        "Number of tensors saved during forward: 2\n"
        "Number of tensors saved during recomputation: 1."
    )
    assert isinstance(caught.value, RuntimeError)


def test_more_tensors_the_second_time_are_found_without_early_stop(torch: Any) -> None:
    x = leaf(torch, 1.0)

    def run(*, early_stop: bool) -> None:
        function = alternately(lambda x: x.sin(), lambda x: x.sin().cos())
        parts(torch).checkpoint(function, x, use_reentrant=False, early_stop=early_stop).backward()

    run(early_stop=True)
    assert x.grad.tolist() == x.cos().tolist()
    assert raises(parts(torch).CheckpointError, lambda: run(early_stop=False)) == (
        "torch.utils.checkpoint: trying to save more tensors during recomputation than during the "
        "original forward pass."
    )


def test_other_shapes_the_second_time(torch: Any) -> None:
    def checked(kind: str) -> Any:
        run = alternately(lambda x: x[:1].sin(), lambda x: x.sin())
        y = parts(torch).checkpoint(
            run, leaf(torch, 1.0, 2.0), use_reentrant=False, determinism_check=kind
        )
        return y.grad_fn._saved_self

    with pytest.raises(parts(torch).CheckpointError) as caught:
        checked("default")
    assert str(caught.value).startswith(
        "torch.utils.checkpoint: Recomputed values for the following tensors have different "
        "metadata than during the forward pass.\n"
        "tensor at position 0:\n"
        "saved metadata: {'shape': torch.Size([1]), 'dtype': torch.float64, "
        "'device': device(type='cpu')}\n"
        "recomputed metadata: {'shape': torch.Size([2]), 'dtype': torch.float64, "
        "'device': device(type='cpu')}\n"
    )
    assert checked("none").shape == (2,)


def test_what_ran_each_time_is_told_on_demand(torch: Any) -> None:
    run = alternately(lambda x: x.sin().cos(), lambda x: x.sin().tanh().cos())
    x = leaf(torch, 1.0, 2.0)
    y = parts(torch).checkpoint(run, x, use_reentrant=False, debug=True, early_stop=False)
    with pytest.raises(parts(torch).CheckpointError) as caught:
        y.sum().backward()
    report = str(caught.value)
    first = " An error happened while unpacking tensors; dumping logs of latest computation"
    assert report.splitlines()[0] == first
    assert [report.count(name) > 0 for name in ("sin", "cos", "tanh")] == [True] * 3
    assert __file__ in report
    assert isinstance(caught.value.__cause__, parts(torch).CheckpointError)

    run = alternately(lambda x: x.sin().cos(), lambda x: x.sin())
    with parts(torch).set_checkpoint_debug_enabled(True):
        y = parts(torch).checkpoint(run, x, use_reentrant=False)
    with pytest.raises(parts(torch).CheckpointError, match="dumping logs"):
        y.sum().backward()

    run = alternately(lambda x: x.sin().cos(), lambda x: x.sin())
    with parts(torch).set_checkpoint_debug_enabled(False):
        y = parts(torch).checkpoint(run, x, use_reentrant=False, debug=True)
    with pytest.raises(parts(torch).CheckpointError, match="A different number"):
        y.sum().backward()


def test_debug_changes_nothing_where_both_runs_agree(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    y = parts(torch).checkpoint(lambda x: x.sin() * x, x, use_reentrant=False, debug=True)
    y.sum().backward()

    (expected,) = torch.autograd.grad((x.sin() * x).sum(), x)
    assert x.grad.tolist() == expected.tolist()


@BOTH
def test_an_input_may_not_be_written_to_in_between(torch: Any, use_reentrant: bool) -> None:
    x = leaf(torch, 1.0, 2.0)
    a = x * 2
    y = parts(torch).checkpoint(torch.sin, a, use_reentrant=use_reentrant)
    a.add_(1)

    assert raises(RuntimeError, y.sum().backward).startswith(
        "one of the variables needed for gradient computation has been modified by an inplace "
        "operation: [torch.DoubleTensor [2]], which is output 0 of Add, is at version 1; expected "
        "version 0 instead."
    )


def test_a_reentrant_one_cannot_give_only_some_gradients(torch: Any) -> None:
    text = (
        "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing "
        "an `inputs` parameter to .backward(). To resolve this error, you can either set "
        "use_reentrant=False, or call .backward() without passing the `inputs` argument."
    )
    x = leaf(torch, 1.0)
    y = parts(torch).checkpoint(torch.sin, x, use_reentrant=True)

    assert raises(RuntimeError, lambda: torch.autograd.grad(y, x, retain_graph=True)) == text
    assert raises(RuntimeError, lambda: y.backward(inputs=[x], retain_graph=True)) == text
    y.backward()
    assert x.grad.tolist() == x.cos().tolist()


def test_a_reentrant_one_needs_an_output_with_a_gradient(torch: Any) -> None:
    y = parts(torch).checkpoint(lambda x: x.detach() * 2, leaf(torch, 1.0), use_reentrant=True)

    assert raises(RuntimeError, y.backward) == (
        "none of output has requires_grad=True, this checkpoint() is not necessary"
    )


@BOTH
def test_an_error_in_the_function_leaves_nothing_behind(torch: Any, use_reentrant: bool) -> None:
    def fails(x: Any) -> Any:
        x.sin().cos()
        raise ValueError("first")

    x = leaf(torch, 1.0)
    checkpoint = parts(torch).checkpoint
    assert raises(ValueError, lambda: checkpoint(fails, x, use_reentrant=use_reentrant)) == "first"
    assert torch.is_grad_enabled()
    y = x.sin().cos()
    assert type(y.grad_fn._saved_self).__name__ == "Tensor"
    y.backward()
    assert x.grad is not None


def test_a_context_may_not_swallow_an_error_of_the_function(torch: Any) -> None:
    def fails(x: Any) -> Any:
        raise ValueError("first")

    text = (
        "torch.utils.checkpoint: the forward context provided by context_fn suppressed an "
        "exception raised during the checkpointed forward. This is not supported because "
        "checkpoint cannot return a value for a failed forward."
    )
    contexts = lambda: (suppress(ValueError), nullcontext())  # noqa: E731
    x = leaf(torch, 1.0)
    checkpoint = parts(torch).checkpoint
    assert (
        raises(
            RuntimeError,
            lambda: checkpoint(fails, x, use_reentrant=False, context_fn=contexts),
        )
        == text
    )
