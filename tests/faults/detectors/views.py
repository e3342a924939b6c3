"""Views and writes in place: histories, versions, and what is refused."""

from __future__ import annotations

from typing import Any

from tests.faults.detectors.common import detector, function, leaf, refused, same


@detector
def writes_through_views(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0, 3.0)
    base = x * 2
    view, other = base[:2], base[1:]
    view.mul_(3)
    (other * other).sum().backward()
    same(x.grad, 0.0, 2 * 6 * 2 * 6.0, 2 * 2 * 3 * 2.0)
    y = leaf(torch, 1.0, 2.0, 3.0)
    base = y * 2
    base[:2].fill_(5)
    base[2:].zero_()
    base.sum().backward()
    same(y.grad, 0.0, 0.0, 0.0)


@detector
def a_write_of_what_needs_a_gradient(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    base = torch.zeros(3, dtype=torch.float64)
    before = base[1:]
    base[:2].copy_(x)
    assert base.requires_grad
    assert before.requires_grad
    (before * torch.tensor([2.0, 3.0], dtype=torch.float64)).sum().backward()
    same(x.grad, 0.0, 2.0)


@detector
def elements_seen_twice(torch: Any) -> None:
    """A view that repeats an element, and whose history is made anew."""
    x = leaf(torch, 1.0, 2.0)
    base = x * 1
    wide = base.unsqueeze(0).expand(3, 2)
    base.mul_(5)
    wide.sum().backward()
    same(x.grad, 15.0, 15.0)


@detector
def histories_are_made_anew_only_after_a_write(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    base = x * 2
    view = base[:1]
    before = view.grad_fn
    assert view.grad_fn is before
    base.mul_(3)
    after = view.grad_fn
    assert after is not before
    assert view.grad_fn is after
    with torch.no_grad():
        base.mul_(2)
        assert view.grad_fn is not after


@detector
def writes_are_counted_once_for_all_aliases(torch: Any) -> None:
    x = torch.ones(4, dtype=torch.float64)
    view, other, data = x[1:], x.detach(), x.data
    view.mul_(2)
    other.add_(1)
    with torch.no_grad():
        x.zero_()
    assert (x._version, view._version, other._version) == (3, 3, 3)
    assert data._version == 0
    torch.autograd.graph.increment_version(view)
    assert x._version == 4


@detector
def leaves_are_guarded(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    refused("a leaf Variable that requires grad", lambda: x.add_(1))
    refused("a view of a leaf Variable", lambda: x[0].add_(1))
    with torch.no_grad():
        x.add_(1)
    assert x.is_leaf
    same(x, 2.0, 3.0)


@detector
def views_remember_how_they_were_made(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)

    def multi() -> Any:
        return (x * 1).unbind()[0]

    def in_no_grad() -> Any:
        base = x * 1
        with torch.no_grad():
            return base[:1]

    def in_function() -> Any:
        mine = function(torch, lambda ctx, x: x.view(2), lambda ctx, grad: grad)
        return mine.apply(x * 1)

    for make, words in (
        (multi, "multiple views"),
        (in_no_grad, "no_grad"),
        (in_function, "inside a custom Function"),
    ):
        refused(words, lambda make=make: make().mul_(2))
        refused(words, lambda make=make: make().view(-1).mul_(2))
        made = make()
        made._base.mul_(2) if made._base is not None else None


@detector
def a_written_value_is_enough_to_refuse(torch: Any) -> None:
    base = torch.zeros(2, dtype=torch.float64)
    with torch.no_grad():
        view = base[:1]
    refused("no_grad", lambda: view.add_(leaf(torch, 1.0)))
    view.add_(1)
    same(base, 1.0, 0.0)


@detector
def overlapping_memory_is_not_written_to(torch: Any) -> None:
    wide = torch.zeros(1).expand(3)
    refused("single memory location", lambda: wide.add_(1))


@detector
def kept_gradients_follow_and_hooks_stay(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    y = x * 2
    heard: list[Any] = []
    y.retain_grad()
    y.register_hook(lambda grad: heard.append(grad.tolist()))
    y.mul_(3)
    y.register_hook(lambda grad: heard.append(grad.tolist()))
    (y * 5).sum().backward()
    same(y.grad, 5.0, 5.0)
    assert heard == [[5.0, 5.0], [15.0, 15.0]], heard
    base = x * 2
    base.retain_grad()
    base[:1].mul_(4)
    base.sum().backward()
    same(base.grad, 1.0, 1.0)
