"""Dual tensors: levels, which tangent a tensor has, and what shares one."""

from __future__ import annotations

import copy
import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from tests.runtime.both import raises, runtime

# PyTorch compiles some jvps when the first dual tensor is made.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")


@pytest.fixture
def fw(torch: Any) -> Any:
    return torch.autograd.forward_ad


@pytest.fixture
def level(fw: Any) -> Iterator[None]:
    """An open dual level."""
    with fw.dual_level():
        yield


def numbers(torch: Any, *values: float) -> Any:
    return torch.tensor(list(values), dtype=torch.float64)


def tangent(fw: Any, tensor: Any) -> Any:
    return fw.unpack_dual(tensor).tangent


def listed(fw: Any, tensor: Any) -> Any:
    """A tensor's tangent as a list; None if it has none."""
    found = tangent(fw, tensor)
    return None if found is None else found.tolist()


# -- levels -------------------------------------------------------------------------------------


def test_a_level_is_open_inside_its_block_and_for_all_threads(torch: Any, fw: Any) -> None:
    x = numbers(torch, 1, 2)
    seen: list[Any] = []
    with fw.dual_level() as level:
        assert level == fw._current_level == 0
        dual = fw.make_dual(x, x)
        thread = threading.Thread(target=lambda: seen.append(listed(fw, dual * 3)))
        thread.start()
        thread.join()

    assert seen == [[3.0, 6.0]]
    assert fw._current_level == -1


def test_levels_do_not_nest(fw: Any) -> None:
    with fw.dual_level():
        text = raises(RuntimeError, fw.enter_dual_level)
        assert fw._current_level == 0

    assert text == "Nested forward mode AD is not supported at the moment"


def test_a_level_is_left_when_its_block_raises(torch: Any, fw: Any) -> None:
    with pytest.raises(ZeroDivisionError), fw.dual_level():
        raise ZeroDivisionError

    assert fw._current_level == -1
    with fw.dual_level():
        assert listed(fw, fw.make_dual(numbers(torch, 1), numbers(torch, 2))) == [2.0]


def test_only_the_open_level_can_be_left(fw: Any) -> None:
    wrong = "Trying to exit a forward AD level that was not the last one that was created. "
    assert raises(RuntimeError, fw.exit_dual_level) == "Dual level must be a positive number."
    assert raises(RuntimeError, lambda: fw.exit_dual_level(level=0)).startswith(wrong)
    with fw.dual_level():
        assert raises(RuntimeError, lambda: fw.exit_dual_level(level=1)).startswith(wrong)


def test_a_level_decorates_functions(torch: Any, fw: Any) -> None:
    @fw.dual_level()
    def doubled() -> Any:
        return listed(fw, fw.make_dual(numbers(torch, 1), numbers(torch, 5)) * 2)

    assert doubled() == [10.0]
    assert doubled() == [10.0]


def test_outside_of_levels_tensors_unpack_to_themselves(torch: Any, fw: Any) -> None:
    x = numbers(torch, 1)

    primal, found = fw.unpack_dual(x)

    assert primal is x
    assert found is None
    assert fw.unpack_dual(x, level=-1).primal is x


def test_what_cannot_be_made_dual(torch: Any, fw: Any) -> None:
    x, whole = numbers(torch, 1, 2), torch.tensor([1, 2])
    make = fw.make_dual
    assert raises(RuntimeError, lambda: make(x, x)).startswith("Trying to create a dual Tensor for")
    with fw.dual_level():
        dual = make(x, x)
        assert raises(ValueError, lambda: make(whole, x)) == (
            "Expected primal to be floating point or complex, but got: torch.int64"
        )
        assert raises(ValueError, lambda: make(x, whole)) == (
            "Expected tangent to be floating point or complex, but got: torch.int64"
        )
        assert raises(RuntimeError, lambda: make(dual, x)).startswith(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same"
        )
        assert raises(RuntimeError, lambda: make(x, dual)) == (
            "Setting a forward grad that itself has a forward gradient at the same level0 is not "
            "supported."
        )
        assert raises(RuntimeError, lambda: make(x, numbers(torch, 1))).endswith(
            "Tensor is of size [2] while the given forward gradient is of size [1]."
        )
        assert raises(RuntimeError, lambda: make(x, x, level=1)) == (
            "Invalid level given to _make_dual"
        )
        assert raises(RuntimeError, lambda: fw.unpack_dual(dual, level=1)) == (
            "Invalid level given to _fw_primal"
        )


@pytest.mark.usefixtures("level")
def test_forward_mode_can_be_switched_off(torch: Any, fw: Any) -> None:
    dual = fw.make_dual(numbers(torch, 1), numbers(torch, 5))
    with fw._set_fwd_grad_enabled(False):
        off = (listed(fw, dual), listed(fw, dual * 2))
    made = torch.no_grad()(lambda: dual * 2)()
    with torch.inference_mode():
        inside = listed(fw, dual * 2)

    assert off == (None, None)
    assert listed(fw, dual) == [5.0]
    assert listed(fw, made) == [10.0], "no_grad changes nothing"
    assert inside is None


# -- what a dual tensor is ----------------------------------------------------------------------


@pytest.mark.usefixtures("level")
def test_a_dual_tensor_is_a_view_for_backward_only(torch: Any, fw: Any) -> None:
    x = numbers(torch, 1, 2).requires_grad_()
    dual = fw.make_dual(x, numbers(torch, 3, 4))
    primal = fw.unpack_dual(dual).primal

    assert dual._base is x
    assert primal._base is x
    assert (type(dual.grad_fn).__name__, dual.grad_fn.name()) == ("ViewBackward0", "ViewBackward0")
    assert primal.grad_fn.name() == "torch::autograd::Identity"
    assert primal.grad_fn.next_functions[0][0].name() == "ViewBackward0"
    assert (listed(fw, x), listed(fw, primal)) == (None, None)


@pytest.mark.usefixtures("level")
def test_writes_through_a_dual_leave_no_tangent_on_its_primal(torch: Any, fw: Any) -> None:
    x = numbers(torch, 1, 2)
    dual = fw.make_dual(x, numbers(torch, 3, 4))
    primal = fw.unpack_dual(dual).primal

    dual.mul_(10)
    dual[1:].mul_(2)
    primal.mul_(dual)

    assert x.tolist() == [100.0, 1600.0]
    assert listed(fw, dual) == [30.0, 80.0]
    assert listed(fw, primal) == [300.0, 3200.0]
    assert listed(fw, x) is None


@pytest.mark.usefixtures("level")
def test_what_keeps_a_tangent_and_what_does_not(torch: Any, fw: Any) -> None:
    dual = fw.make_dual(numbers(torch, 1, 2), numbers(torch, 3, 4))

    assert listed(fw, dual.clone()) == [3.0, 4.0]
    assert listed(fw, dual.to(torch.float32)) == [3.0, 4.0]
    assert tangent(fw, dual.to(torch.float32)).dtype is torch.float32
    assert listed(fw, torch.as_tensor(dual)) == [3.0, 4.0]
    assert listed(fw, dual.contiguous().requires_grad_()) == [3.0, 4.0]
    for other in (
        dual.detach(),
        dual.data,
        dual.to(torch.int64),
        copy.copy(dual),
        copy.deepcopy(dual),
        torch.zeros_like(dual),
        torch.nn.Parameter(dual),
        dual > 1,
        dual.argmax(),
        dual.max(0)[1],
        (dual * 1).detach_(),
    ):
        assert listed(fw, other) is None


@pytest.mark.usefixtures("level")
def test_a_tangent_is_printed(torch: Any, fw: Any) -> None:
    x, v = numbers(torch, 1, 2), numbers(torch, 3, 4)
    dual = fw.make_dual(x.requires_grad_(), v)

    assert repr(dual) == (
        "tensor([1., 2.], dtype=torch.float64, grad_fn=<ViewBackward0>,\n"
        "       tangent=tensor([3., 4.], dtype=torch.float64))"
    )
    assert repr(fw.make_dual(torch.tensor(1.0), torch.tensor(2.0))) == "tensor(1., tangent=2.0)"


@pytest.mark.usefixtures("level")
def test_functions_with_out_refuse_tangents(torch: Any, fw: Any) -> None:
    x = numbers(torch, 1, 2)
    dual = fw.make_dual(x, x)
    text = (
        "Trying to use forward AD with add_out that does not support it because it is an out= "
        "function"
    )

    assert raises(NotImplementedError, lambda: torch.add(dual, x, out=x.clone())) == text
    assert raises(NotImplementedError, lambda: torch.add(x, x, out=dual.clone())) == text
    assert raises(NotImplementedError, lambda: dual.clone().set_(x)).startswith(
        "Trying to use forward AD with set_ that does not support it"
    )
    assert raises(NotImplementedError, lambda: torch.floor_divide(dual, 2)) == (
        "Trying to use forward AD with aten::floor_divide that does not support it."
    )


# -- tangents of results ------------------------------------------------------------------------


@pytest.mark.usefixtures("level")
def test_tangents_follow_broadcasting_promotion_and_numbers(torch: Any, fw: Any) -> None:
    dual = fw.make_dual(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    wide = numbers(torch, 1, 2).reshape(2, 1)

    assert listed(fw, dual + 1) == [3.0, 4.0]
    assert listed(fw, 1 - dual) == [-3.0, -4.0]
    assert listed(fw, dual * wide) == [[3.0, 4.0], [6.0, 8.0]]
    assert listed(fw, dual + wide) == [[3.0, 4.0], [3.0, 4.0]]
    assert tangent(fw, dual + wide).dtype is torch.float64
    assert listed(fw, dual[0] * dual) == [6.0, 10.0]
    assert listed(fw, torch.stack([wide.flatten(), dual.double()])) == [[0.0, 0.0], [3.0, 4.0]]


@pytest.mark.usefixtures("level")
def test_complex_tangents(torch: Any, fw: Any) -> None:
    z = torch.tensor([3 + 4j], dtype=torch.complex128)
    dual = fw.make_dual(z, torch.tensor([1 + 1j], dtype=torch.complex128))

    assert listed(fw, dual.real) == [1.0]
    assert listed(fw, dual.abs()) == pytest.approx([1.4])
    assert listed(fw, dual * dual) == [2 * (3 + 4j) * (1 + 1j)]
    assert listed(fw, dual * dual.conj()) == [14 + 0j]


@pytest.mark.usefixtures("level")
def test_no_result_shares_memory_with_a_tangent_that_went_in(torch: Any, fw: Any) -> None:
    v = numbers(torch, 3, 4)
    dual = fw.make_dual(numbers(torch, 1, 2), v)
    for made in (dual + 1, torch.zeros(2, dtype=torch.float64).copy_(dual), dual.clone()):
        made.mul_(10)
        assert listed(fw, made) == [30.0, 40.0]

    assert v.tolist() == [3.0, 4.0]


# -- writes in place ----------------------------------------------------------------------------


@pytest.mark.usefixtures("level")
def test_a_write_goes_into_the_tangent_that_is_there(torch: Any, fw: Any) -> None:
    dual = fw.make_dual(numbers(torch, 1, 2), numbers(torch, 3, 4)) * 1
    held = tangent(fw, dual)

    dual.mul_(dual * 1)
    assert tangent(fw, dual) is held
    assert held.tolist() == [6.0, 16.0]
    dual[0] = 7.0
    assert held.tolist() == [0.0, 16.0]
    dual.copy_(numbers(torch, 5, 6))
    assert held.tolist() == [0.0, 0.0]
    assert held._version > 0


@pytest.mark.usefixtures("level")
def test_results_of_one_element_may_be_written_to(torch: Any, fw: Any) -> None:
    x = fw.make_dual(numbers(torch, 3).reshape(1, 1), numbers(torch, 2).reshape(1, 1))

    values = torch.linalg.eigh(x)[0].mul_(4)

    assert listed(fw, values) == [8.0]


@pytest.mark.usefixtures("level")
def test_writes_without_a_derivative_leave_zeros(torch: Any, fw: Any) -> None:
    x = numbers(torch, 1, 2)
    for write in (
        lambda t: t.floor_(),
        lambda t: t.fill_(3),
        lambda t: t.zero_(),
        lambda t: t.lt_(x),
        lambda t: t.eq_(1),
        lambda t: t.uniform_(),
        lambda t: t.bernoulli_(),
    ):
        dual = fw.make_dual(x, x) * 1
        write(dual)
        assert listed(fw, dual) == [0.0, 0.0]


@pytest.mark.usefixtures("level")
def test_a_view_that_is_written_to_gives_its_base_a_tangent(torch: Any, fw: Any) -> None:
    dual = fw.make_dual(numbers(torch, 1, 2), numbers(torch, 3, 4))
    base = numbers(torch, 5, 6, 7)
    tail, head = base[1:], base[:2]

    tail.mul_(dual)

    assert listed(fw, base) == [0.0, 18.0, 28.0]
    assert listed(fw, head) == [0.0, 18.0]
    assert tangent(fw, tail)._base is tangent(fw, base)
    assert tangent(fw, head)._base is tangent(fw, base)


@pytest.mark.usefixtures("level")
def test_a_view_finds_the_tangent_its_base_got_later(torch: Any, fw: Any) -> None:
    dual = fw.make_dual(numbers(torch, 1, 2), numbers(torch, 3, 4))
    base = numbers(torch, 5, 6)
    view = base.view(2, 1)

    base.copy_(dual)
    view.zero_()

    assert tangent(fw, view)._base is tangent(fw, base)
    assert listed(fw, base) == [0.0, 0.0]


@pytest.mark.usefixtures("level")
def test_dims_changed_in_place_change_those_of_the_tangent(torch: Any, fw: Any) -> None:
    dual = fw.make_dual(numbers(torch, 1, 2), numbers(torch, 3, 4)) * 1
    held = tangent(fw, dual)

    dual.unsqueeze_(0).t_()

    assert tangent(fw, dual) is held
    assert held.tolist() == [[3.0], [4.0]]


@pytest.mark.usefixtures("level")
def test_a_leaf_that_requires_grad_refuses_the_write(torch: Any, fw: Any) -> None:
    leaf = numbers(torch, 1, 2).requires_grad_()
    dual = fw.make_dual(numbers(torch, 1, 2), numbers(torch, 3, 4))

    assert raises(RuntimeError, lambda: leaf.mul_(dual)) == (
        "a leaf Variable that requires grad is being used in an in-place operation."
    )
    assert listed(fw, leaf) is None
    with torch.no_grad():
        leaf.mul_(dual)
    assert listed(fw, leaf) == [3.0, 8.0]


# -- with backward ------------------------------------------------------------------------------


@pytest.mark.usefixtures("level")
def test_gradients_carry_tangents(torch: Any, fw: Any) -> None:
    x = fw.make_dual(numbers(torch, 1, 2).requires_grad_(), numbers(torch, 1, 1))
    seen: list[Any] = []
    square = x * x
    square.register_hook(lambda grad: seen.append(listed(fw, grad)))

    (grad,) = torch.autograd.grad((square * x).sum(), x)

    assert grad.tolist() == [3.0, 12.0]
    assert listed(fw, grad) == [6.0, 12.0]
    assert not grad.requires_grad
    assert seen == [[1.0, 1.0]]


@pytest.mark.usefixtures("level")
def test_saved_results_keep_their_tangents(torch: Any, fw: Any) -> None:
    x = fw.make_dual(numbers(torch, 1, 2).requires_grad_(), numbers(torch, 1, 1))
    grown = x.exp()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach(), lambda t: t):
        hooked = x.exp()
    part = (x * 1)[:1].exp_()
    for made in (grown, hooked):
        assert listed(fw, made.grad_fn._saved_result) == listed(fw, made)
        (grad,) = torch.autograd.grad(made.sum(), x)
        assert listed(fw, grad) == pytest.approx(made.tolist())
    (grad,) = torch.autograd.grad(part.sum(), x)

    assert listed(fw, grad) == pytest.approx([part.item(), 0.0])


@pytest.mark.usefixtures("level")
def test_the_first_gradient_of_a_leaf_arrives_without_a_tangent(torch: Any, fw: Any) -> None:
    x = numbers(torch, 1, 2).requires_grad_()
    square = (fw.make_dual(x, numbers(torch, 3, 4)) ** 2).sum()

    square.backward(retain_graph=True)
    assert (x.grad.tolist(), listed(fw, x.grad)) == ([2.0, 4.0], None)
    square.backward()
    assert (x.grad.tolist(), listed(fw, x.grad)) == ([4.0, 8.0], [6.0, 8.0])


def test_two_leaves_share_no_gradient_in_a_level() -> None:
    """PyTorch lets them: the second backward adds to both twice."""
    torch = runtime()
    forward_ad = torch.autograd.forward_ad
    x, y = (numbers(torch, 1, 2).requires_grad_() for _ in range(2))
    with forward_ad.dual_level():
        total = forward_ad.make_dual(x, numbers(torch, 1, 1)) + y
        total.sum().backward(retain_graph=True)
        total.sum().backward()

    assert (x.grad.tolist(), y.grad.tolist()) == ([2.0, 2.0], [2.0, 2.0])


def test_a_tensor_may_be_written_over_with_its_own_product() -> None:
    """PyTorch takes the second factor after the write."""
    torch = runtime()
    forward_ad = torch.autograd.forward_ad
    with forward_ad.dual_level():
        x = forward_ad.make_dual(numbers(torch, 1, 2), numbers(torch, 3, 4))
        x.mul_(x)
        assert listed(forward_ad, x) == [6.0, 16.0]


def test_tangents_have_a_history_that_outlives_the_level(torch: Any, fw: Any) -> None:
    x, v = numbers(torch, 1, 2).requires_grad_(), numbers(torch, 1, 3).requires_grad_()
    with fw.dual_level():
        found = tangent(fw, fw.make_dual(x, v) ** 3)

    by_x, by_v = torch.autograd.grad(found.sum(), (x, v))

    assert by_x.tolist() == [6.0, 36.0]
    assert by_v.tolist() == [3.0, 12.0]


@pytest.mark.usefixtures("level")
def test_the_gradient_of_a_tangent_has_none_of_its_own(torch: Any, fw: Any) -> None:
    x = numbers(torch, 1, 2).requires_grad_()
    found = tangent(fw, fw.make_dual(x, numbers(torch, 1, 1)) ** 3)

    (grad,) = torch.autograd.grad(found.sum(), x, create_graph=True)

    assert grad.tolist() == [6.0, 12.0]
    assert listed(fw, grad) is None


def test_tangents_are_where_their_tensors_are() -> None:
    torch = runtime()
    forward_ad = torch.autograd.forward_ad
    x = torch.ones(3, 4, device="sim:0", requires_grad=True)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones(4, 3, device="sim:0").t())
        made = [dual * dual, dual.softmax(1), dual.var(), torch.cat([dual, x]), dual.sum(0)]
        written = torch.ones(3, 4, device="sim:0")
        written[1:].mul_(dual[1:])
        (grad,) = torch.autograd.grad((dual * dual).sum(), dual)
        for tensor in (dual, *made, written, grad):
            assert str(tangent(forward_ad, tensor).device) == "sim:0"
        assert str(tangent(forward_ad, dual.to("cpu")).device) == "cpu"


# -- memory -------------------------------------------------------------------------------------


def test_tangents_live_as_long_as_their_tensor_and_their_level(torch: Any, fw: Any) -> None:
    x = numbers(torch, 1, 2)
    with fw.dual_level():
        held = x * 3
        gone = weakref.ref(held)
        dual = fw.make_dual(x, held)
        del held
        assert gone() is not None
        del dual
        gc.collect()
        assert gone() is None
        held = x * 3
        gone = weakref.ref(held)
        dual = fw.make_dual(x, held)
        del held
    gc.collect()

    assert gone() is None
    assert fw.unpack_dual(dual).tangent is None


NO_TANGENT = {
    "special_zeta": "torch.special.zeta(d, d)",
    "_unique2": "torch.unique(d)",
    "igamma": "torch.igamma(torch.ones(3), d)",
    "igammac": "torch.igammac(d, d)",
    "_cdist_forward": "torch.cdist(m, m)",
    "acosh_": "d.clone().acosh_()",
    "asinh_": "d.clone().asinh_()",
    "atanh_": "d.clone().atanh_()",
}


def test_operations_that_pytorch_has_no_tangent_of_say_so(torch: Any, fw: Any) -> None:
    for name, code in NO_TANGENT.items():
        with fw.dual_level():
            scope = {
                "torch": torch,
                "F": torch.nn.functional,
                "d": fw.make_dual(torch.ones(3) * 2, torch.ones(3)),
                "m": fw.make_dual(torch.ones(3, 3), torch.ones(3, 3)),
            }
            assert raises(
                NotImplementedError, lambda code=code, scope=scope: eval(code, scope)
            ) == (
                f"Trying to use forward AD with {name} that does not support it because it has not "
                "been implemented yet."
            ), name


def test_rows_scaled_down_have_a_tangent(torch: Any) -> None:
    x = torch.tensor([[3.0, 4.0], [0.3, 0.4]], dtype=torch.float64)
    t = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)

    made = torch.func.jvp(lambda x: torch.renorm(x, 2, 0, 1.0), (x,), (t,))[1]

    assert [[round(value, 5) for value in row] for row in made.tolist()] == [
        [-0.064, 0.048],
        [3.0, 4.0],
    ]


def test_where_a_tangent_without_elements_begins_does_not_matter(torch: Any, fw: Any) -> None:
    primal = torch.ones(1).as_strided((0, 1), (1, 1), 0)
    tangent = torch.ones(1).as_strided((0, 1), (1, 1), 1)

    with fw.dual_level():
        dual = fw.make_dual(primal, tangent)
        assert fw.unpack_dual(dual).tangent is tangent
