"""Tangents of conjugated and negated views have the same bits, and are the same memory."""

from __future__ import annotations

from typing import Any

import pytest

# PyTorch compiles some jvps when the first dual tensor is made.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")


def primal_and_tangent(torch: Any) -> tuple[Any, Any]:
    return torch.tensor([1 + 2j, 3 - 4j]), torch.tensor([1j, 2 + 1j])


def test_the_tangent_of_a_view_with_bits_is_that_view_of_the_tangent(torch: Any) -> None:
    fw = torch.autograd.forward_ad
    primal, tangent = primal_and_tangent(torch)
    with fw.dual_level():
        dual = fw.make_dual(primal, tangent)
        made = fw.unpack_dual(dual.conj())
        part = fw.unpack_dual(dual.conj().imag)

        assert made.tangent.is_conj()
        assert made.tangent.tolist() == [-1j, 2 - 1j]
        assert part.tangent.is_neg()
        assert part.tangent.tolist() == [-1, -1]


def test_a_tangent_takes_the_bits_of_its_primal(torch: Any) -> None:
    fw = torch.autograd.forward_ad
    primal, tangent = primal_and_tangent(torch)
    with fw.dual_level():
        turned = fw.unpack_dual(fw.make_dual(primal.conj(), tangent))
        plain = fw.unpack_dual(fw.make_dual(primal, tangent.conj()))
        same = fw.unpack_dual(fw.make_dual(primal, tangent))

        assert turned.tangent.is_conj()
        assert turned.tangent.tolist() == tangent.tolist()
        assert not plain.tangent.is_conj()
        assert plain.tangent.tolist() == [-1j, 2 - 1j]
        assert same.tangent.data_ptr() == tangent.data_ptr()


def test_a_write_to_one_side_gives_the_other_its_tangent(torch: Any) -> None:
    fw = torch.autograd.forward_ad
    primal, tangent = primal_and_tangent(torch)
    with fw.dual_level():
        for take, base_tangent, view_tangent in (
            (lambda b: b.conj(), [2 - 1j, 2 - 11j], [2 + 1j, 2 + 11j]),
            (torch._neg_view, [-2 + 1j, 10 - 5j], [2 - 1j, -10 + 5j]),
            (lambda b: b.conj()[1:], [0, 2 - 11j], [2 + 11j]),
            (lambda b: b[1:].conj(), [0, 2 - 11j], [2 + 11j]),
        ):
            base = primal.clone()
            view = take(base)
            view.mul_(fw.make_dual(primal, tangent)[-view.shape[0] :])
            assert fw.unpack_dual(base).tangent.tolist() == base_tangent
            assert fw.unpack_dual(view).tangent.tolist() == view_tangent
        base = primal.clone()
        part = base.conj().imag
        part.mul_(fw.make_dual(primal, tangent).real)
        assert fw.unpack_dual(base).tangent.tolist() == [0, -8j]
        assert fw.unpack_dual(part).tangent.tolist() == [0, 8]
        base = primal.clone()
        view = base.conj()
        base.mul_(fw.make_dual(primal, tangent))
        assert fw.unpack_dual(view).tangent.tolist() == [-2 - 1j, 10 + 5j]


def test_jvp_goes_through_bits(torch: Any) -> None:
    primal, tangent = primal_and_tangent(torch)

    made, slope = torch.func.jvp(lambda x: x.conj() * x.imag, (primal,), (tangent,))
    assert made.tolist() == [2 - 4j, -12 - 16j]
    assert slope.tolist() == [1 - 4j, -5 + 8j]
