"""no_grad, enable_grad, set_grad_enabled, inference_mode: as blocks, decorators and switches."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from tests.runtime.both import leaf, raises


def test_no_grad_records_nothing_and_enable_grad_does_within(torch: Any) -> None:
    x = leaf(torch, 1.0)
    with torch.no_grad():
        a = x * 2
        with torch.enable_grad():
            b = x * 2
        c = x * 2

    assert [t.requires_grad for t in (a, b, c, x * 2)] == [False, True, False, True]


@pytest.mark.parametrize("mode", [lambda t: t.no_grad(), lambda t: t.set_grad_enabled(False)])
def test_an_error_inside_switches_back(torch: Any, mode: Any) -> None:
    with pytest.raises(ZeroDivisionError), mode(torch):
        1 / 0  # noqa: B018

    assert torch.is_grad_enabled()


def test_set_grad_enabled_is_a_switch(torch: Any) -> None:
    torch.set_grad_enabled(False)
    try:
        assert not torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)


def test_as_decorators(torch: Any) -> None:
    @torch.no_grad()
    def without() -> bool:
        return torch.is_grad_enabled()

    @torch.no_grad
    def bare() -> bool:
        return torch.is_grad_enabled()

    @torch.set_grad_enabled(False)
    def switched() -> bool:
        return torch.is_grad_enabled()

    @torch.enable_grad()
    def within() -> bool:
        return torch.is_grad_enabled()

    with torch.no_grad():
        enabled = within()

    assert (without(), bare(), switched(), enabled, torch.is_grad_enabled()) == (
        False,
        False,
        False,
        True,
        True,
    )
    assert without.__name__ == "without"


def test_a_decorated_function_may_call_itself(torch: Any) -> None:
    @torch.no_grad()
    def countdown(left: int) -> list[bool]:
        return [torch.is_grad_enabled(), *(countdown(left - 1) if left else [])]

    assert countdown(2) == [False] * 3
    assert torch.is_grad_enabled()


def test_a_decorated_generator_is_in_the_mode_only_while_it_runs(torch: Any) -> None:
    seen: list[bool] = []

    @torch.no_grad()
    def generator() -> Generator[int, Any, str]:
        for i in range(2):
            seen.append(torch.is_grad_enabled())
            got = yield i
            seen.append((torch.is_grad_enabled(), got))
        return "end"

    running = generator()
    outside = []
    assert next(running) == 0
    outside.append(torch.is_grad_enabled())
    assert running.send("sent") == 1
    outside.append(torch.is_grad_enabled())
    with pytest.raises(StopIteration) as stop:
        next(running)

    assert stop.value.value == "end"
    assert outside == [True, True]
    assert seen == [False, (False, "sent"), False, (False, None)]


def test_a_decorated_generator_takes_what_is_thrown_into_it(torch: Any) -> None:
    seen: list[Any] = []

    @torch.no_grad()
    def generator() -> Generator[str, None, None]:
        try:
            yield "first"
        except KeyError:
            seen.append(torch.is_grad_enabled())
            yield "caught"

    running = generator()
    next(running)

    assert running.throw(KeyError()) == "caught"
    assert (seen, torch.is_grad_enabled()) == ([False], True)


def test_a_decorated_generator_can_be_closed(torch: Any) -> None:
    seen: list[Any] = []

    @torch.enable_grad()
    def generator() -> Generator[int, None, None]:
        try:
            yield 1
        finally:
            seen.append(torch.is_grad_enabled())

    with torch.no_grad():
        running = generator()
        next(running)
        running.close()
        after = torch.is_grad_enabled()

    assert (seen, after) == ([True], False)


def test_leaves_made_without_grad_may_still_require_one(torch: Any) -> None:
    with torch.no_grad():
        x = torch.ones(1, requires_grad=True)

    assert (x.requires_grad, (x * 2).requires_grad) == (True, True)


def test_a_leaf_can_be_written_to_without_grad(torch: Any) -> None:
    x = leaf(torch, 1.0)
    with torch.no_grad():
        x.add_(1)

    assert (x.tolist(), x.is_leaf, x.requires_grad, x._version) == ([2.0], True, True, 1)


def test_backward_works_inside_no_grad(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = x * x
    with torch.no_grad():
        y.backward()

    assert x.grad.tolist() == [6.0]


def test_requires_grad_of_what_is_no_leaf_cannot_be_switched_off(torch: Any) -> None:
    y = leaf(torch, 1.0) * 2

    def switch_off() -> None:
        y.requires_grad = False

    text = "you can only change requires_grad flags of leaf variables."
    assert raises(RuntimeError, lambda: y.requires_grad_(False)).startswith(text)
    assert raises(RuntimeError, switch_off).startswith(text)
    assert y.requires_grad_(True) is y

    def switch_on() -> None:
        y.requires_grad = True

    assert raises(RuntimeError, switch_on) == text


def test_detach_shares_values_and_writes_and_no_history(torch: Any) -> None:
    x = leaf(torch, 1.0)
    y = x * 2
    z = y.detach()
    z.add_(1)

    assert (z.requires_grad, z.is_leaf, y.tolist(), y._version) == (False, True, [3.0], 1)


def test_data_shares_values_and_not_the_count_of_writes(torch: Any) -> None:
    y = leaf(torch, 1.0) * 2
    y.data.add_(1)

    assert (y.tolist(), y._version) == ([3.0], 0)


def test_detach_in_place_cuts_history(torch: Any) -> None:
    y = leaf(torch, 1.0) * 2
    y.detach_()

    assert (y.grad_fn, y.requires_grad, y.is_leaf) == (None, False, True)


def test_inference_mode_records_nothing(torch: Any) -> None:
    x = leaf(torch, 1.0)
    with torch.inference_mode():
        y = x * 2
        inside = torch.is_inference_mode_enabled()

    assert (inside, torch.is_inference_mode_enabled(), y.requires_grad) == (True, False, False)
