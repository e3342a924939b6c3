"""Anomaly mode: which node made the NaN, and where that node was made."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import pytest

from tests.runtime.both import function, leaf, raises

ENABLED = "Anomaly Detection has been enabled"


def quietly(torch: Any, **options: Any) -> Any:
    """detect_anomaly() without its warning that it is slow."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.autograd.detect_anomaly(**options)


def messages(caught: Any) -> list[str]:
    """The first line of each, without the place in PyTorch that it comes from."""
    return [
        str(warning.message).splitlines()[0].partition(" (Triggered internally")[0]
        for warning in caught
    ]


def nan_behind(torch: Any, x: Any, name: str = "Bad") -> Any:
    return function(
        torch, lambda ctx, x: x * 1, lambda ctx, grad: grad * float("nan"), name=name
    ).apply(x)


def test_entering_it_warns_that_it_is_slow(torch: Any) -> None:
    with pytest.warns(UserWarning, match=ENABLED), torch.autograd.detect_anomaly():
        pass


def test_a_nan_is_an_error_at_the_node_that_made_it(torch: Any) -> None:
    x = leaf(torch, -1.0)
    with quietly(torch), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        text = raises(RuntimeError, nan_behind(torch, x).sum().backward)

    assert text == "Function 'BadBackward' returned nan values in its 0th output."
    assert messages(caught) == [
        "Error detected in BadBackward. Traceback of forward call that caused the error:"
    ]
    assert "nan_behind" in str(caught[0].message)


def test_it_says_which_output_held_the_nan(torch: Any) -> None:
    x, y = leaf(torch, 1.0), leaf(torch, 2.0)
    bad = function(torch, lambda ctx, a, b: a * b, lambda ctx, g: (g, g * float("nan")))
    with quietly(torch), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = raises(RuntimeError, bad.apply(x, y).backward)

    assert text == "Function 'MineBackward' returned nan values in its 1th output."


def test_a_node_of_an_operation_is_named_too(torch: Any) -> None:
    x = leaf(torch, 0.0)
    with quietly(torch), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = raises(RuntimeError, (x.sqrt() * 0).sum().backward)

    assert text == "Function 'SqrtBackward0' returned nan values in its 0th output."


def test_without_it_a_nan_is_a_value(torch: Any) -> None:
    x = leaf(torch, 1.0)
    nan_behind(torch, x).sum().backward()

    assert str(x.grad.tolist()) == "[nan]"


def test_a_forward_outside_leaves_no_trace(torch: Any) -> None:
    y = nan_behind(torch, leaf(torch, 1.0)).sum()
    with quietly(torch), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        text = raises(RuntimeError, y.backward)

    assert text == "Function 'BadBackward' returned nan values in its 0th output."
    assert messages(caught) == [
        (
            "Error detected in BadBackward. No forward pass information available. Enable detect "
            "anomaly during forward pass for more information."
        )
    ]


def test_any_error_in_backward_says_where_its_node_was_made(torch: Any) -> None:
    broken = function(torch, lambda ctx, x: x * 1, lambda ctx, grad: 1 / 0)
    with quietly(torch), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        y = broken.apply(leaf(torch, 1.0)).sum()
        with pytest.raises(ZeroDivisionError):
            y.backward()

    assert messages(caught) == [
        "Error detected in MineBackward. Traceback of forward call that caused the error:"
    ]


def test_looking_for_nan_can_be_left_out(torch: Any) -> None:
    x = leaf(torch, 1.0)
    with quietly(torch, check_nan=False):
        nan_behind(torch, x).sum().backward()

    assert str(x.grad.tolist()) == "[nan]"


def test_the_switch_takes_effect_at_once_and_back_at_the_end(torch: Any) -> None:
    with torch.autograd.set_detect_anomaly(True):
        assert torch.is_anomaly_enabled()
        with torch.autograd.set_detect_anomaly(False):
            assert not torch.is_anomaly_enabled()
        assert torch.is_anomaly_enabled()
        assert torch.is_anomaly_check_nan_enabled()
    assert not torch.is_anomaly_enabled()
    torch.autograd.set_detect_anomaly(True, check_nan=False)
    try:
        assert (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()) == (True, False)
    finally:
        torch.autograd.set_detect_anomaly(False)
    assert not torch.is_anomaly_enabled()


def test_it_is_on_in_all_threads(torch: Any) -> None:
    """Also in those that were there before."""
    seen: list[Any] = []
    turns = [threading.Event(), threading.Event()]

    def look() -> None:
        seen.append(torch.is_anomaly_enabled())
        turns[0].set()
        turns[1].wait()
        seen.append((torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()))

    old = threading.Thread(target=look)
    old.start()
    turns[0].wait()
    with quietly(torch, check_nan=False):
        turns[1].set()
        old.join()
        new = threading.Thread(target=look)
        new.start()
        new.join()

    assert seen == [False, (True, False), True, (True, False)]
    assert not torch.is_anomaly_enabled()


def test_what_was_before_is_what_was_when_it_was_made(torch: Any) -> None:
    made = quietly(torch)
    torch.set_anomaly_enabled(True, False)
    try:
        with made:
            assert torch.is_anomaly_check_nan_enabled()
        assert not torch.is_anomaly_enabled()
    finally:
        torch.set_anomaly_enabled(False)


def test_the_switch_is_on_or_off(torch: Any) -> None:
    assert raises(TypeError, lambda: torch.autograd.set_detect_anomaly(3)) == (
        "set_anomaly_enabled(): argument 'enabled' (position 1) must be bool, not int"
    )


def test_where_warnings_are_errors_they_are_written_down(torch: Any, capsys: Any) -> None:
    """So that the error under way is the one that comes out."""
    with quietly(torch):
        text = raises(RuntimeError, nan_behind(torch, leaf(torch, 1.0)).sum().backward)

    assert text == "Function 'BadBackward' returned nan values in its 0th output."
    assert capsys.readouterr().err.startswith(
        "UserWarning: Error detected in BadBackward. Traceback of forward call that caused the "
        "error:\n"
    )


def test_it_ends_with_an_error_inside(torch: Any) -> None:
    with pytest.raises(ZeroDivisionError), quietly(torch):
        1 / 0  # noqa: B018

    assert not torch.is_anomaly_enabled()


def test_in_double_backward_the_first_backward_is_told_of_too(torch: Any) -> None:
    """The node that fails was made by the backward of another, whose forward stands in the code."""
    x = leaf(torch, 0.0)
    with quietly(torch), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        y = x**1.5
        (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        text = raises(RuntimeError, (first * 0).sum().backward)

    assert text == "Function 'PowBackward0' returned nan values in its 0th output."
    assert messages(caught) == [
        "Error detected in PowBackward0. Traceback of forward call that caused the error:",
        "",
    ]
    assert "Previous calculation was induced by PowBackward0." in str(caught[1].message)


def test_where_a_node_was_made_is_in_its_metadata(torch: Any) -> None:
    with quietly(torch):
        y = leaf(torch, 1.0) * 2
    lines = y.grad_fn.metadata["traceback_"]

    assert isinstance(lines, list)
    assert "leaf(torch, 1.0) * 2" in "".join(lines)


def test_metadata_is_the_users_to_write(torch: Any) -> None:
    y = leaf(torch, 1.0) * 2
    y.grad_fn.metadata["mine"] = 3

    assert y.grad_fn.metadata == {"mine": 3}


def test_a_nan_made_by_a_hook_is_not_the_nodes(torch: Any) -> None:
    """Anomaly mode looks at what nodes return, so it blames the next one."""
    x = leaf(torch, 1.0)
    with quietly(torch), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = x * 2
        z = y * 3
        y.register_hook(lambda grad: grad * float("nan"))
        text = raises(RuntimeError, z.sum().backward)

    assert text == "Function 'MulBackward0' returned nan values in its 0th output."
