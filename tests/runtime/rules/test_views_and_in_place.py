"""Rules 1 to 6, 34 and 35: views, writes in place, and who notices them."""

from __future__ import annotations

from typing import Any

import pytest

from gradscope.trace import schema
from gradscope.trace.trace import Trace
from tests.runtime.both import function, leaf, names, raises
from tests.runtime.rules.conftest import Seen
from tests.runtime.rules.looks import edges, errors, names_in, node_of, ran, saved_by

MULTI = "This view is the output of a function that returns multiple views."
CUSTOM = "This view was created inside a custom Function (or because an input was returned as-is)"
AMBIGUOUS = "Given that this use case is ambiguous and error-prone, it is forbidden."
CREATED, WRITTEN = "A view was created in", "mode and is being modified inplace"
BASE = "its base or another view of its base has been modified inplace"


def node(tensor: Any) -> str:
    return type(tensor.grad_fn).__name__


def writes(trace: Trace) -> list[tuple[str, int]]:
    """Each write: by which operation (or none), and what the counter says now."""
    calls = {op.id: op.name.partition(".")[0] for op in trace.rows(schema.Op)}
    return [(calls.get(row.op, ""), row.new) for row in trace.rows(schema.Version)]


@pytest.mark.rule(1)
def test_a_write_through_a_view_rewrites_the_base_at_once_and_other_views_when_next_used(
    torch: Any, seen: Seen
) -> None:
    x = leaf(torch, 1.0, 2.0, 3.0)
    base = x * 1
    first, second, third = base[:2], base[1:], base[2:]
    before = first.grad_fn
    second.mul_(10)
    # The base at once: its new node leads to its old one, and the write's node is inside.
    assert (node(base), names(base.grad_fn)) == ("CopySlices", [("MulBackward0", 0), (None, 0)])
    assert [t._base is base for t in (first, second, third)] == [True, True, True]
    # Another view when it is next used, also under no_grad, and with a new number each time.
    with torch.no_grad():
        assert (node(first), names(first.grad_fn)) == ("AsStridedBackward0", [("CopySlices", 0)])
    assert first.grad_fn is not before
    assert first.grad_fn is first.grad_fn
    assert first.output_nr == 0
    (first.sum() + third.sum()).backward()
    assert x.grad.tolist() == [1.0, 10.0, 10.0]

    def shows(trace: Trace) -> bool:
        slices = node_of(trace, "CopySlices")
        known = names_in(trace)
        # The third view's node is made when it is used: after the first's.
        strided = [n for n, name in known.items() if name == "AsStridedBackward0"]
        return (
            edges(trace, slices)[0] == ("MulBackward0", 0)
            and [edges(trace, n) for n in strided] == [[("CopySlices", 0)]] * len(strided)
            and len(strided) == 3
            and writes(trace) == [("mul_", 1)]
            and "MulBackward0" in ran(trace)
        )

    seen(shows)


@pytest.mark.rule(2)
def test_a_written_value_that_requires_grad_makes_the_base_and_its_earlier_views_require_it(
    torch: Any, seen: Seen
) -> None:
    x = leaf(torch, 5.0)
    base = torch.zeros(3, dtype=torch.float64)
    early, late = base[:2], base[1:]
    assert (base.requires_grad, early.requires_grad, early.grad_fn) == (False, False, None)
    late.add_(x)
    assert [t.requires_grad for t in (base, early, late)] == [True, True, True]
    assert [t.is_leaf for t in (base, early, late)] == [False, False, False]
    (early * torch.tensor([1.0, 7.0], dtype=torch.float64)).sum().backward()
    assert x.grad.tolist() == [7.0]

    # A view that nobody has asked since counts as a leaf, and so cannot be written to.
    other = torch.zeros(2, dtype=torch.float64)
    unasked, written = other[:1], other[:]
    written.mul_(x)
    assert raises(RuntimeError, lambda: unasked.add_(1)) == (
        "a leaf Variable that requires grad is being used in an in-place operation."
    )

    def shows(trace: Trace) -> bool:
        slices = node_of(trace, "CopySlices")
        nowhere, into = edges(trace, slices)[:1], edges(trace, slices)[1:]
        return (
            nowhere == [(None, 0)]
            and into == [("AccumulateGrad", 0)]
            and "CopySlices" in ran(trace)
            and writes(trace) == [("add_", 1), ("mul_", 1)]
        )

    seen(shows)


@pytest.mark.rule(3)
def test_a_view_remembers_how_it_was_made_and_so_do_its_views(torch: Any, seen: Seen) -> None:
    def made(how: str) -> Any:
        base = torch.ones(2, 2, dtype=torch.float64, requires_grad=True) * 1
        if how == "several":
            return base.unbind()[0]
        if how == "custom":
            return function(torch, lambda ctx, x: x, lambda ctx, grad: grad).apply(base)
        with torch.no_grad() if how == "no_grad" else torch.inference_mode():
            return base[:1]

    wanted = {
        "several": ("Output 0 of Unbind is a view and is being modified inplace.", MULTI),
        "custom": ("Output 0 of Mine is a view and is being modified inplace.", CUSTOM),
        "no_grad": (f"{CREATED} no_grad {WRITTEN} with grad mode enabled.", AMBIGUOUS),
        "inference": (f"{CREATED} inference {WRITTEN} in normal mode.", AMBIGUOUS),
    }
    for how, (head, reason) in wanted.items():
        text = raises(RuntimeError, lambda how=how: made(how).add_(1))
        assert text.startswith(head)
        assert reason in text
        # A view of it says so too, and whose output it is itself.
        text = raises(RuntimeError, lambda how=how: made(how)[:1].add_(1))
        assert text.startswith("Output 0 of Slice is a view")
        assert reason in text
        # So does a look at it after its base was written to.
        view = made(how)
        with torch.no_grad():
            view._base.add_(1)
        assert BASE in raises(RuntimeError, lambda view=view: view * 2)

    # The check fires even when only the written value requires grad, and not when nothing does.
    plain = torch.ones(2, dtype=torch.float64)
    first, second = plain.unbind()
    first.add_(1)
    assert MULTI in raises(RuntimeError, lambda: second.mul_(leaf(torch, 3.0)[0]))
    # Without grad all may be written to.
    for how in wanted:
        with torch.no_grad():
            made(how).add_(1)

    def shows(trace: Trace) -> bool:
        """Only the writes that were allowed, and no node of a base that was written to."""
        done = writes(trace)
        return (
            done == [("add_", 1)] * 9
            and "CopySlices" not in names_in(trace).values()
            and errors(trace) == []  # they were raised outside any backward
        )

    seen(shows)


@pytest.mark.rule(4)
def test_a_leaf_that_requires_grad_cannot_be_written_to_but_without_grad(
    torch: Any, seen: Seen
) -> None:
    x = leaf(torch, 1.0, 2.0)
    leaf_error = "a leaf Variable that requires grad is being used in an in-place operation."
    view_error = f"a view of {leaf_error}"
    for write in (lambda t: t.add_(1), lambda t: t.zero_(), lambda t: t.copy_(t * 2),
                  lambda t: t.fill_(leaf(torch, 3.0)[0]), lambda t: t.exp_(),
                  lambda t: t.masked_fill_(t.detach() > 0, 1)):  # fmt: skip
        assert raises(RuntimeError, lambda write=write: write(x)) == leaf_error
        assert raises(RuntimeError, lambda write=write: write(x[:1])) == view_error
    for reshape in ("t_", "squeeze_"):
        assert raises(RuntimeError, getattr(x, reshape)) == leaf_error
    assert raises(RuntimeError, lambda: x.__setitem__(0, 5.0)) == view_error
    assert (x.tolist(), x._version) == ([1.0, 2.0], 0)

    with torch.no_grad():
        x.mul_(3)
        x[:1].fill_(9.0)
    assert (x.tolist(), x.is_leaf, x.grad_fn, x._version) == ([9.0, 6.0], True, None, 2)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]

    def shows(trace: Trace) -> bool:
        return writes(trace) == [("mul_", 1), ("fill_", 2)] and ran(trace)[-1] == "AccumulateGrad"

    seen(shows)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
@pytest.mark.rule(5)
def test_an_alias_set_has_one_counter_of_writes(torch: Any, seen: Seen) -> None:
    fw = torch.autograd.forward_ad
    base = torch.ones(3, dtype=torch.float64)
    view, cut, window = base[:2], base.detach(), base.view(3, 1)[1:]
    with fw.dual_level():
        dual = fw.make_dual(base, torch.ones(3, dtype=torch.float64))
        aliases = (base, view, cut, window, dual)
        for nr, alias in enumerate(aliases, 1):
            with torch.no_grad():
                alias.add_(1)
            assert [t._version for t in aliases] == [nr] * 5

    # `.data` reads as an alias with a counter of its own; assigned, it leaves the tensor its own.
    apart = base.data
    apart.add_(1)
    assert (base._version, apart._version) == (5, 1)
    base.data = torch.zeros(3, dtype=torch.float64)
    assert (base._version, base.tolist(), cut._version) == (5, [0.0, 0.0, 0.0], 5)
    base.add_(1)
    assert (base._version, view._version, view.tolist()) == (6, 6, [6.0, 7.0])

    # The counter is what backward asks.
    x = leaf(torch, 3.0)
    y = x * 1
    z = y * y
    y.detach().add_(1)
    assert "is at version 1; expected version 0 instead" in raises(RuntimeError, z.backward)

    def shows(trace: Trace) -> bool:
        """Five writes to one storage; through `.data` to the same one, counted apart."""
        rows = list(trace.rows(schema.Version))
        shared = [row.new for row in rows if row.storage == rows[0].storage]
        return (
            shared[:6] == [1, 2, 3, 4, 5, 1]
            and rows[-1].new == 1
            and "is at version 1; expected version 0" in errors(trace)[0][2]
        )

    seen(shows)


@pytest.mark.rule(6)
def test_only_what_backward_will_read_is_saved(torch: Any, seen: Seen) -> None:
    x, w = leaf(torch, 3.0), torch.full((1,), 2.0, dtype=torch.float64)
    # A sum reads nothing; a product reads the other factor, and only for a gradient that is wanted.
    y = x * 1
    total = y + y
    product = y * w
    assert (product.grad_fn._saved_self, product.grad_fn._saved_other is w) == (None, True)
    y.add_(1)
    (total + product).backward()
    assert x.grad.tolist() == [4.0]

    # exp reads its result, not its input; a write to the input is legal, one to the result is not.
    y = x * 1
    z = y.exp()
    y.zero_()
    z.backward()
    assert round(x.grad.item() - 4, 6) == 20.085537
    y = (x * 1).exp()
    y.add_(1)
    assert "which is output 0 of Exp, is at version 1" in raises(RuntimeError, y.backward)

    def shows(trace: Trace) -> bool:
        products = [row for row in saved_by(trace, "MulBackward0") if row.slot == "self"]
        return (
            saved_by(trace, "AddBackward0") == []
            and [row.slot for row in saved_by(trace, "ExpBackward0")] == ["result", "result"]
            and products == []
        )

    seen(shows)


@pytest.mark.rule(34)
def test_a_write_to_one_of_several_views_names_the_operation_that_made_it(
    torch: Any, seen: Seen
) -> None:
    def base() -> Any:
        return torch.ones(4, 2, dtype=torch.float64, requires_grad=True) * 1

    makers = {
        "Unbind": lambda t: t.unbind(),
        "Split": lambda t: t.split(2),
        "SplitWithSizes": lambda t: t.split([1, 3]),
        "Slice": lambda t: t.tensor_split(2),
    }
    for name, make in makers.items():
        for nr in (0, 1):
            piece = make(base())[nr]
            assert piece.output_nr == (0 if name == "Slice" else nr)
            if name == "Slice":  # tensor_split takes slices one by one: each may be written to
                piece.add_(1)
                continue
            text = raises(RuntimeError, lambda piece=piece: piece.add_(1))
            assert text.startswith(
                f"Output {nr} of {name} is a view and is being modified inplace. {MULTI}"
            )
    assert raises(RuntimeError, lambda: base().chunk(2)[1].add_(1)).startswith("Output 1 of Split")
    # The unsafe ones are written to without anybody noticing, as their name says.
    whole = base()
    pieces = whole.unsafe_chunk(2)
    pieces[0].mul_(5)
    assert (whole._version, pieces[0]._version, pieces[0]._is_view()) == (0, 1, False)
    assert whole.tolist()[0] == [5.0, 5.0]

    def shows(trace: Trace) -> bool:
        return writes(trace) == [("add_", 1), ("add_", 1), ("mul_", 1)]

    seen(shows)


@pytest.mark.rule(35)
def test_detach_shares_memory_and_counter_and_nothing_else(torch: Any, seen: Seen) -> None:
    x = leaf(torch, 1.0, 2.0)
    y = x * 1
    cut = y.detach()
    assert (cut.requires_grad, cut.grad_fn, cut.is_leaf, cut._is_view()) == (
        False, None, True, False,
    )  # fmt: skip
    assert cut.data_ptr() == y.data_ptr()
    z = y * y
    cut.add_(1)
    assert (y.tolist(), y._version, cut._version) == ([2.0, 3.0], 1, 1)
    assert raises(RuntimeError, z.sum().backward).startswith("one of the variables needed")

    # detach_ cuts the tensor itself off, and refuses views.
    cut_off = x * 2
    assert cut_off.detach_() is cut_off
    assert (cut_off.is_leaf, cut_off.requires_grad) == (True, False)
    assert raises(RuntimeError, (x * 1)[:1].detach_).startswith("Can't detach views in-place.")

    def shows(trace: Trace) -> bool:
        tensors = {tensor.id: tensor for tensor in trace.rows(schema.Tensor)}
        (call,) = [op for op in trace.rows(schema.Op) if op.name == "detach"]
        source, made = tensors[call.inputs[0]], tensors[call.outputs[0]]
        return (
            source.storage == made.storage
            and call.node < 0
            and call.why == schema.Why.DETACHED
            and writes(trace) == [("add_", 1)]
        )

    seen(shows)
