"""The way from a base to its view, taken again from another base."""

from __future__ import annotations

from typing import Any


def test_a_view_is_taken_again_of_a_base_that_lies_alike(torch: Any) -> None:
    base, other = torch.zeros(3, 4, 5), torch.arange(60.0).reshape(3, 4, 5)
    view = base.select(1, 2).t()[1:]

    again = view._view_func(other)
    assert torch.equal(again, other.select(1, 2).t()[1:])
    assert again._base is other._base
    assert view._view_func(torch.zeros(3, 4, 6)) is None
    assert view._view_func_unsafe(torch.zeros(3, 4, 6)).shape == (4, 3)
    assert base._view_func(other) is None


def test_where_a_view_looks_can_be_changed_on_the_way(torch: Any) -> None:
    other = torch.arange(12.0).reshape(3, 4)

    with torch.autograd._force_original_view_tracking(True):
        view = torch.zeros(3, 4).select(1, 1)
        moved = view._view_func(other, symint_visitor_fn=lambda size: size + 1)
    assert torch.equal(moved, other.select(1, 2))
    assert torch.equal(view._view_func(other), other.select(1, 1))
