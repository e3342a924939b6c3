"""Conjugated and negated tensors are views: the memory of their base, read with another sign."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import pytest


def numbers(torch: Any) -> Any:
    return torch.tensor([1 + 2j, 3 - 4j, 5 + 6j])


def bits(tensor: Any) -> tuple[bool, bool]:
    return tensor.is_conj(), tensor.is_neg()


def names(tensor: Any) -> list[str]:
    """The nodes from a tensor to the leaf, by the first edge of each."""
    found = []
    node = tensor.grad_fn
    while node is not None:
        found.append(node.name().removeprefix("torch::autograd::"))
        node = node.next_functions[0][0] if node.next_functions else None
    return found


def test_a_conjugate_has_a_bit_and_the_memory_of_its_base(torch: Any) -> None:
    x = numbers(torch)
    c = x.conj()

    assert bits(c) == (True, False)
    assert torch.is_conj(c)
    assert c._is_view()
    assert c._base is x
    assert c.data_ptr() == x.data_ptr()
    assert c.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert c[1:].storage_offset() == 1
    assert c.tolist() == [1 - 2j, 3 + 4j, 5 - 6j]


def test_the_imaginary_part_of_a_conjugate_has_the_neg_bit(torch: Any) -> None:
    x = numbers(torch)
    part = x.conj().imag

    assert bits(part) == (False, True)
    assert torch.is_neg(part)
    assert part.tolist() == [-2, 4, -6]
    assert part.data_ptr() == x.data_ptr() + 4
    assert bits(x.conj().real) == (False, False)


def test_what_an_operation_makes_of_bits(torch: Any) -> None:
    c = numbers(torch).conj()

    assert bits(c.conj()) == (False, False)
    assert bits(c[1:]) == bits(c.detach()) == bits(c.data) == bits(c.contiguous()) == (True, False)
    assert bits(c.as_strided((2,), (1,), 1)) == (True, False)
    assert bits(torch._neg_view(c)) == (True, True)
    assert torch._neg_view(c).tolist() == [-1 + 2j, -3 - 4j, -5 + 6j]
    assert bits(torch._neg_view(c).imag) == (False, False)
    assert bits(torch._neg_view(c).real) == (False, True)
    for made in (c.clone(), c * 1, torch.empty_like(c), torch.conj_physical(c), -c):
        assert bits(made) == (False, False)


def test_resolving_copies_what_has_the_bit_and_nothing_else(torch: Any) -> None:
    x = numbers(torch)
    c = x.conj()

    assert x.resolve_conj() is x
    assert c.resolve_neg() is c
    assert bits(c.resolve_conj()) == (False, False)
    assert c.resolve_conj().data_ptr() != x.data_ptr()
    assert c.imag.resolve_neg().tolist() == [-2, 4, -6]


def test_an_adjoint_is_a_view_with_turned_strides(torch: Any) -> None:
    x = torch.arange(6.0).reshape(2, 3) + 1j

    for made in (x.mH, x.H, x.adjoint()):
        assert made.is_conj()
        assert made.stride() == (1, 3)
        assert made.data_ptr() == x.data_ptr()
    x[0, 1] = 7j
    assert x.mH[1, 0].item() == -7j
    assert not x.mH.mH.is_conj()


def test_a_write_to_the_base_is_seen_in_all_its_views(torch: Any) -> None:
    x = numbers(torch)
    c, part, twice, negative = x.conj(), x.conj().imag, x.conj().conj(), torch._neg_view(x)
    x.mul_(2)

    assert c.tolist() == [2 - 4j, 6 + 8j, 10 - 12j]
    assert part.tolist() == [-4, 8, -12]
    assert twice.tolist() == x.tolist()
    assert negative.tolist() == [-2 - 4j, -6 + 8j, -10 - 12j]
    assert c._version == part._version == x._version == 1


def test_a_write_to_a_view_is_seen_in_its_base_and_the_others(torch: Any) -> None:
    x = numbers(torch)
    c, row = x.conj(), x[1:].conj()
    row.add_(1j)
    assert x.tolist() == [1 + 2j, 3 - 5j, 5 + 5j]
    assert c.tolist() == [1 - 2j, 3 + 5j, 5 - 5j]
    c.imag.zero_()
    c[0] = 7 + 7j
    assert x.tolist() == [7 - 7j, 3, 5]
    torch.add(x, 1, out=c)
    assert x.tolist() == [8 + 7j, 4, 6]
    c.data.mul_(2)
    assert x.tolist() == [16 + 14j, 8, 12]
    x.data.zero_()
    assert row.tolist() == [0, 0]
    for piece in c.split(1):
        piece.fill_(3j)
    assert x.tolist() == [-3j, -3j, -3j]
    assert x._version == c._version == row._version


def test_a_write_leaves_alone_what_was_written_to_the_base_without_being_counted(
    torch: Any,
) -> None:
    x = numbers(torch)
    memory, c = x.numpy(), x.conj()
    memory[0] = 9j
    c[1] = 1j

    assert x.tolist() == [9j, -1j, 5 + 6j]
    assert c.tolist() == [-9j, 1j, 5 - 6j]


def test_inference_tensors_have_bits_and_share_writes(torch: Any) -> None:
    with torch.inference_mode():
        x = numbers(torch)
        row, c = x[1:], x.conj()
        row.mul_(2)
        c[0] = 1j
        assert c.is_conj()
        assert c.is_inference()
        assert x.tolist() == [-1j, 6 - 8j, 10 + 12j]
        assert c.tolist() == [1j, 6 + 8j, 10 - 12j]
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside"):
        c.mul_(2)


def test_every_dtype_with_a_sign_can_be_negated(torch: Any) -> None:
    for dtype in (torch.int64, torch.float32, torch.bfloat16, torch.complex128):
        x = torch.tensor([1, 2], dtype=dtype)
        negative = torch._neg_view(x)
        negative.add_(3)
        assert negative.tolist() == [2, 1]
        assert x.tolist() == [-2, -1]
    real = torch.ones(2)
    assert real.conj() is real
    empty = torch.zeros(0, dtype=torch.complex64)
    assert empty.conj().is_conj()
    assert empty.conj().imag.tolist() == []


def test_what_cannot_be_done_with_a_bit_is_refused_in_pytorchs_words(torch: Any) -> None:
    c = numbers(torch).conj()
    parts = "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate"
    viewed = "torch.Tensor.view is not supported for {} when converting to a different dtype."
    for call, words in (
        (lambda: torch.view_as_real(c), parts),
        (c.numpy, "Can't call numpy() on Tensor that has conjugate bit set. Use tensor.resolve_"),
        (c.imag.numpy, "Can't call numpy() on Tensor that has negative bit set. Use tensor."),
        (lambda: c.view(torch.float32), viewed.format("conjugate view tensors")),
        (lambda: c.imag.view(torch.int32), viewed.format("tensors with negative bit set")),
    ):
        with pytest.raises(RuntimeError) as refused:
            call()
        assert str(refused.value).startswith(words)
    with pytest.raises(BufferError, match="Can't export tensors with the conjugate bit set"):
        c.__dlpack__()
    assert c.numpy(force=True).tolist() == c.tolist()


def test_copies_and_pickles_keep_what_is_read(torch: Any) -> None:
    c = numbers(torch).conj()

    for one in (c, c[1:], c.imag, c.imag[:2]):
        saved = io.BytesIO()
        torch.save(one, saved)
        saved.seek(0)
        for made in (copy.copy(one), pickle.loads(pickle.dumps(one)), torch.load(saved)):
            assert bits(made) == bits(one)
            assert made.tolist() == one.tolist()
        assert bits(copy.deepcopy(one)) == (False, False)
        assert copy.deepcopy(one).tolist() == one.tolist()
    assert repr(c) == "tensor([1.-2.j, 3.+4.j, 5.-6.j])"


def test_shared_memory_is_the_bases(torch: Any) -> None:
    x = numbers(torch)
    c = x.conj().share_memory_()

    assert c.is_conj()
    assert c.is_shared()
    assert x.is_shared()
    c.zero_()
    assert x.tolist() == [0, 0, 0]


def test_nodes_are_called_as_pytorch_calls_them(torch: Any) -> None:
    x = torch.tensor([1 + 2j, 3 - 4j], requires_grad=True)
    imag = ["NegViewBackward0", "ViewAsRealBackward0", "ConjBackward0", "ConjBackward0"]

    for made, expected in (
        (x.conj(), ["ConjBackward0"]),
        (torch._conj(x), ["ConjBackward0"]),
        (x.conj().conj(), ["ConjBackward0", "ConjBackward0"]),
        (x.conj().imag, ["SelectBackward0", *imag]),
        (x.conj().imag.resolve_neg(), ["CloneBackward0", "SelectBackward0", *imag]),
        (x.conj().real, ["SelectBackward0", *imag[1:]]),
        (x.conj().resolve_conj(), ["CloneBackward0", "ConjBackward0"]),
        (torch._conj_physical(x), ["ConjPhysicalBackward0"]),
        (torch._neg_view(x), ["NegViewBackward0"]),
        (x.reshape(2, 1).mH, ["ConjBackward0", "TransposeBackward0", "ViewBackward0"]),
    ):
        assert names(made) == [*expected, "AccumulateGrad"]


def test_histories_after_a_write_are_those_of_pytorch(torch: Any) -> None:
    x = torch.tensor([1 + 2j, 3 - 4j], requires_grad=True)
    written = ["CopySlices", "MulBackward0", "AccumulateGrad"]
    imag = ["AsStridedBackward0", "NegViewBackward0", "ViewAsRealBackward0"]

    for take, expected in (
        (lambda b: b.conj(), ["ConjBackward0"]),
        (lambda b: b[1:].conj(), ["ConjBackward0", "AsStridedBackward0"]),
        (lambda b: b.conj()[1:], ["AsStridedBackward0", "ConjBackward0"]),
        (lambda b: b.conj().imag, [*imag, "ConjBackward0", "ConjBackward0"]),
        (torch._neg_view, ["NegViewBackward0"]),
    ):
        base = x * 1
        view = take(base)
        view.mul_(3)
        assert names(view) == [*expected, *written]
        assert names(base) == written
    base = x * 1
    view = base.conj()
    base.mul_(2)
    assert names(view) == ["ConjBackward0", "MulBackward0", "MulBackward0", "AccumulateGrad"]


def test_gradients_go_through_writes_to_views_with_bits(torch: Any) -> None:
    takes = (
        lambda b: b.mH,
        lambda b: b.mH[1],
        lambda b: b.conj().t().conj()[:, 0],
        lambda b: torch._neg_view(b)[0],
        lambda b: b.t().conj().imag[0],
        lambda b: b.t().conj().real[0],
        lambda b: b.conj().unsqueeze(0),
    )
    real = torch.arange(6.0, dtype=torch.float64).reshape(2, 3)
    start = torch.complex(real, real - 2.5).requires_grad_()

    for take in takes:

        def written(x: Any, take: Any = take) -> Any:
            base = x * 1
            view, other = take(base), take(base)
            view.mul_(view.clone())
            return base.sum() + (other * other.conj()).sum()

        assert torch.autograd.gradcheck(written, start)
        assert torch.autograd.gradgradcheck(written, start)


def test_a_saved_tensor_tells_of_writes_through_the_other_side(torch: Any) -> None:
    x = torch.tensor([1 + 2j, 3 - 4j], requires_grad=True)
    for written_to_view in (False, True):
        base = x * 1
        view = base.conj()
        saved, written = (base, view) if written_to_view else (view, base)
        loss = (saved * saved).abs().sum()
        written.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        x.conj().mul_(2)
