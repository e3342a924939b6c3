"""Rules 31 to 33: forward mode and inference mode."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from gradscope.trace import schema
from gradscope.trace.trace import Trace
from tests.runtime.both import raises
from tests.runtime.rules.conftest import Seen

# PyTorch compiles some jvps when the first dual tensor is made.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")


def numbers(torch: Any, *shape: int) -> Any:
    return (
        torch.arange(1.0, 1 + torch.ones(shape).numel(), dtype=torch.float64).reshape(shape).clone()
    )


def calls(trace: Trace) -> list[str]:
    """The operations that ran, in order."""
    return [op.name for op in sorted(trace.rows(schema.Op), key=lambda op: op.begin)]


# -- forward mode -------------------------------------------------------------------------------


@pytest.mark.rule(31)
def test_a_dual_keeps_the_very_tangent_that_lies_as_it_does(torch: Any, seen: Seen) -> None:
    fw = torch.autograd.forward_ad
    x, wide = numbers(torch, 2, 3), numbers(torch, 4, 3)

    def kept(primal: Any, tangent: Any) -> bool:
        found = fw.unpack_dual(fw.make_dual(primal, tangent)).tangent
        assert found.tolist() == tangent.tolist()
        assert found.stride() == primal.stride() or found is tangent
        return found is tangent

    with fw.dual_level():
        assert kept(x, numbers(torch, 2, 3))
        assert not kept(x, numbers(torch, 3, 2).t()), "other strides"
        assert not kept(x, numbers(torch, 7)[1:].view(2, 3)), "another offset"
        assert not kept(x, numbers(torch, 4, 3)[:2]), "a larger storage"
        assert kept(wide[:2], numbers(torch, 4, 3)[:2])
        assert kept(wide[2:], numbers(torch, 4, 3)[2:])
        assert kept(numbers(torch, 1, 3), numbers(torch, 3).as_strided((1, 3), (1, 1)))
        z = torch.complex(x, x)
        assert kept(z, torch.complex(x, -x))
        assert kept(z.conj(), torch.complex(x, -x).conj())
        assert raises(RuntimeError, lambda: fw.make_dual(x, numbers(torch, 6))).endswith(
            "Tensor is of size [2, 3] while the given forward gradient is of size [6]."
        )
        repeated = numbers(torch, 3, 1).expand(3, 3)
        assert raises(
            RuntimeError, lambda: fw.make_dual(repeated, numbers(torch, 3, 3))
        ).startswith(
            "unsupported operation: more than one element of the written-to tensor refers to a"
        )

    def shows(trace: Trace) -> bool:
        counted = Counter(calls(trace))
        return (counted["_make_dual"], counted["copy_"]) == (11, 3)  # three were copied

    seen(shows)


@pytest.mark.rule(31)
def test_leaving_a_level_frees_tangents_and_detaching_cuts_them(torch: Any, seen: Seen) -> None:
    fw = torch.autograd.forward_ad
    x = numbers(torch, 3)
    with fw.dual_level():
        tangent = numbers(torch, 3)
        held = weakref.ref(tangent)
        dual = fw.make_dual(x, tangent)
        del tangent
        with torch.no_grad():
            doubled = dual * 2
        assert fw.unpack_dual(doubled).tangent.tolist() == [2.0, 4.0, 6.0]
        assert fw.unpack_dual(dual.detach()).tangent is None
        assert fw.unpack_dual(doubled.detach_()).tangent is None
        gc.collect()
        assert held() is not None
    gc.collect()
    assert held() is None
    assert fw.unpack_dual(dual).tangent is None
    with fw.dual_level():
        assert fw.unpack_dual(dual).tangent is None, "a new level begins without tangents"
        assert fw.unpack_dual(dual * 2).tangent is None

    def shows(trace: Trace) -> bool:
        # The product and its tangent; once the level is left, the product alone.
        return [name for name in calls(trace) if name.startswith("mul")] == ["mul"] * 3

    seen(shows)


@pytest.mark.rule(31)
def test_views_share_the_tangent_of_their_base_and_writes_go_into_it(
    torch: Any, seen: Seen
) -> None:
    fw = torch.autograd.forward_ad

    def tangent(tensor: Any) -> Any:
        return fw.unpack_dual(tensor).tangent

    with fw.dual_level():
        dual = fw.make_dual(numbers(torch, 3), numbers(torch, 3)) * 1
        held = tangent(dual)
        view = dual[1:]
        assert tangent(view)._base is held
        view.mul_(10)
        assert tangent(dual) is held
        assert held.tolist() == [1.0, 20.0, 30.0]
        base = numbers(torch, 3)
        head = base[:2]
        base[1:].copy_(dual[1:])
        assert tangent(base).tolist() == [0.0, 20.0, 30.0]
        assert tangent(head)._base is tangent(base)

    def shows(trace: Trace) -> bool:
        held = {v.storage for v in trace.rows(schema.Version)}
        # dual and its tangent; base and its tangent
        return len(held) == 4

    seen(shows)


@pytest.mark.rule(31)
def test_gradients_and_tangents_of_one_program_go_into_one_trace(torch: Any, seen: Seen) -> None:
    fw = torch.autograd.forward_ad
    leaf = numbers(torch, 3).requires_grad_()
    with fw.dual_level():
        dual = fw.make_dual(leaf, numbers(torch, 3))
        written = dual * 1
        written[0] = 7.0
        for _ in range(2):
            (written * dual).sum().backward(retain_graph=True)
        assert leaf.grad.tolist() == [14.0, 8.0, 12.0]
        assert fw.unpack_dual(leaf.grad).tangent.tolist() == [0.0, 4.0, 6.0]

    def shows(trace: Trace) -> bool:
        # What an engine computes of a gradient with a tangent is in the task it computes it for.
        tasks = [task.id for task in trace.rows(schema.GraphTask)]
        products = Counter(op.task for op in trace.rows(schema.Op) if op.name == "mul")
        return len(tasks) == 2 and all(products[task] >= 4 for task in tasks)

    seen(shows)


# -- custom functions in forward mode -----------------------------------------------------------


def custom(torch: Any, forward: Callable[..., Any], jvp: Callable[..., Any]) -> Any:
    body = {"forward": staticmethod(forward), "jvp": staticmethod(jvp)}
    return type("Mine", (torch.autograd.Function,), body).apply


@pytest.mark.rule(32)
def test_a_jvp_returns_views_for_views(torch: Any, seen: Seen) -> None:
    fw = torch.autograd.forward_ad
    with fw.dual_level():
        dual = fw.make_dual(numbers(torch, 4), numbers(torch, 4))
        part = fw.make_dual(numbers(torch, 4), numbers(torch, 4))[2:]

        def same(jvp: Callable[..., Any]) -> Any:
            return custom(torch, lambda ctx, x: x, jvp)(dual)

        def column(jvp: Callable[..., Any], x: Any) -> Any:
            return custom(torch, lambda ctx, x: x.view(-1, 1), jvp)(x)

        def other(g: Any) -> Any:
            return g.clone().view(-1, 1)

        made = same(lambda ctx, g: g.view_as(g))
        assert made is not dual
        assert fw.unpack_dual(made).tangent._base is fw.unpack_dual(dual).tangent
        made = column(lambda ctx, g: g.view(-1, 1), part)
        assert fw.unpack_dual(made).tangent.tolist() == [[3.0], [4.0]]
        text = (
            "A custom Function's forward is returning a view (or an input as-is) but the jvp is "
            "not returning a view."
        )
        assert raises(RuntimeError, lambda: same(lambda ctx, g: g)) == text
        assert raises(RuntimeError, lambda: column(lambda ctx, g: other(g) * 1, dual)) == text
        assert raises(RuntimeError, lambda: column(lambda ctx, g: other(g), dual)) == (
            "A custom Function is returning a view but the jvp is not returning a view of the "
            "given grad input."
        )
        assert raises(RuntimeError, lambda: column(lambda ctx, g: other(g), part)) == (
            "A custom Function is returning a view but the jvp is not returning a view of the same "
            "base as the given grad input."
        )
        plain = numbers(torch, 4)
        made = custom(torch, lambda ctx, x, y: x.view(4, 1), lambda ctx, g, h: h.view(4, 1))(
            plain, dual
        )
        assert fw.unpack_dual(made).tangent._base is fw.unpack_dual(plain).tangent

    def shows(trace: Trace) -> bool:
        # Two that went well; those whose jvp was refused have no result.
        return calls(trace).count("Mine") == 3

    seen(shows)


@pytest.mark.rule(32)
def test_a_jvp_writes_in_place_where_forward_does(torch: Any, seen: Seen) -> None:
    fw = torch.autograd.forward_ad

    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.mark_dirty(x)
        return x.mul_(y)

    with fw.dual_level():

        def write(jvp: Callable[..., Any]) -> Any:
            x = fw.make_dual(numbers(torch, 3), numbers(torch, 3)) * 1
            made = custom(torch, forward, jvp)(x, 2)
            assert made is x
            return fw.unpack_dual(made).tangent.tolist()

        assert write(lambda ctx, g, _: g.mul_(2)) == [2.0, 4.0, 6.0]
        assert raises(RuntimeError, lambda: write(lambda ctx, g, _: g * 2)).startswith(
            "An inplace custom Function is not modifying the forward mode gradients inplace."
        )
        assert raises(RuntimeError, lambda: write(lambda ctx, g, _: g.mul_(2)[:])).startswith(
            "An inplace custom Function is not returning the forward mode gradients as-is."
        )
        base, dual = numbers(torch, 3), fw.make_dual(numbers(torch, 2), numbers(torch, 2))
        tail = base[1:]
        custom(torch, forward, lambda ctx, g, h: h * 5)(tail, dual)
        assert fw.unpack_dual(base).tangent.tolist() == [0.0, 5.0, 10.0]
        assert fw.unpack_dual(tail).tangent._base is fw.unpack_dual(base).tangent

    def shows(trace: Trace) -> bool:
        # Forward writes, and jvp to the tangent: where jvp was refused first, forward alone.
        return len({version.storage for version in trace.rows(schema.Version)}) == 2 + 1 + 2 + 2

    seen(shows)


@pytest.mark.rule(32)
def test_a_jvp_sees_only_what_was_saved_for_it(torch: Any, seen: Seen) -> None:
    fw = torch.autograd.forward_ad
    found: list[Any] = []

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, save: bool) -> Any:
            ctx.save_for_backward(x, x * 3)
            if save:
                ctx.save_for_forward(x, None)
            return x * x

        @staticmethod
        def jvp(ctx: Any, x_t: Any, _: Any) -> Any:
            found.append([None if t is None else t.tolist() for t in ctx.saved_tensors])
            assert all(
                fw.unpack_dual(t).tangent is None for t in ctx.saved_tensors if t is not None
            )
            return x_t

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            found.append(len(ctx.saved_tensors))
            return grad, None

    leaf = numbers(torch, 2).requires_grad_()
    with fw.dual_level():
        dual = fw.make_dual(leaf, numbers(torch, 2))
        Square.apply(dual, True).sum().backward()
        Square.apply(dual, False)

    assert found == [[[1.0, 2.0], None], 2, []]

    def shows(trace: Trace) -> bool:
        nodes = {node.id: node.name for node in trace.rows(schema.Node)}
        kept = [
            saved for saved in trace.rows(schema.Saved) if nodes[saved.node] == "SquareBackward"
        ]
        return len(kept) == 4  # for backward, twice; what was saved for forward is in no node

    seen(shows)


OUTSIDE = "Inplace update to inference tensor outside InferenceMode is not allowed."
UNSAVED = "Inference tensors cannot be saved for backward."
UNCOUNTED = "Inference tensors do not track version counter."


@pytest.mark.rule(33)
def test_inference_tensors_have_no_version_and_are_not_saved_but_may_feed_an_add(
    torch: Any, seen: Seen
) -> None:
    x = numbers(torch, 2).requires_grad_()
    with torch.inference_mode():
        made = torch.ones(2, dtype=torch.float64)
        result = x * 2
        assert (torch.is_inference_mode_enabled(), torch.is_grad_enabled()) == (True, False)
        assert [t.is_inference() for t in (made, result, made[:1], made.clone())] == [True] * 4
        assert (result.requires_grad, result.grad_fn, made[:1]._is_view()) == (False, None, False)
        made.add_(1)
        with torch.enable_grad():
            assert (torch.is_grad_enabled(), (x * 2).requires_grad) == (True, False)
        with torch.inference_mode(False):
            assert (torch.ones(1).is_inference(), torch.is_grad_enabled()) == (False, True)
    assert torch.is_inference(made)
    assert not torch.is_inference(x)

    assert raises(RuntimeError, lambda: made._version) == UNCOUNTED
    for write in (lambda: made.mul_(2), made[:1].zero_, lambda: made.copy_(x)):
        assert raises(RuntimeError, write).startswith(OUTSIDE)
    for save in (lambda: x * made, lambda: (x * 1).mul_(made), lambda: x.pow(made)):
        assert raises(RuntimeError, save).startswith(UNSAVED)
    assert raises(RuntimeError, made.requires_grad_).startswith(
        "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed."
    )
    # It may feed an add, and its clone is an ordinary tensor.
    total = (x + made).sum() + (x * made.clone()).sum()
    total.backward()
    copied = [1 + value for value in made.tolist()]
    assert (x.grad.tolist(), made.clone().is_inference(), made.detach().is_inference()) == (
        copied, False, True,
    )  # fmt: skip
    # It may be a `.grad`, and get one, where it is a leaf of its own.
    with torch.inference_mode():
        leaf = torch.ones(2, dtype=torch.float64, requires_grad=True)
    (leaf + x).sum().backward()
    assert leaf.grad.tolist() == [1.0, 1.0]

    def shows(trace: Trace) -> bool:
        """Calls inside made no node, and the trace says why."""
        inside = [op for op in trace.rows(schema.Op) if op.why == schema.Why.INFERENCE]
        names = {op.name.partition(".")[0] for op in inside}
        return names >= {"mul", "clone", "add_"} and all(op.node < 0 for op in inside)

    seen(shows)


@pytest.mark.rule(33)
def test_views_taken_in_inference_mode_raise_later(torch: Any, seen: Seen) -> None:
    x = numbers(torch, 2).requires_grad_()
    base = x * 1
    with torch.inference_mode():
        view, whole = base[:1], base.view(2)
        assert [t.is_inference() for t in (view, whole, base.detach())] == [False] * 3
        assert (view._is_view(), view.requires_grad, view.grad_fn) == (True, True, None)
        view.add_(1)
        assert [t._version for t in (base, view, whole)] == [1, 1, 1]
    made = "A view was created in inference mode and"
    assert raises(RuntimeError, lambda: view.add_(1)).startswith(
        f"{made} is being modified inplace in normal mode."
    )
    later = f"{made} its base or another view of its base has been modified inplace in normal mode."
    for use in (lambda: view * 2, lambda: whole.grad_fn):
        assert raises(RuntimeError, use).startswith(later)
    # What is taken of it outside inherits that; without grad all is allowed.
    base = x * 1
    with torch.inference_mode():
        view = base[:]
    assert raises(RuntimeError, lambda: view[:1].add_(1)).startswith(
        "Output 0 of Slice is a view of a view which was created in inference mode and is being "
        "modified inplace in normal mode."
    )
    with torch.no_grad():
        view[:1].add_(1)
    (base * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]

    def shows(trace: Trace) -> bool:
        return [row.new for row in trace.rows(schema.Version)] == [1, 1]

    seen(shows)
