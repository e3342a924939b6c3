"""The memory under tensors, as `storage()` and `untyped_storage()` show it."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")


def test_a_typed_storage_is_numbers(torch: Any) -> None:
    x = torch.arange(4.0).reshape(2, 2)
    storage = x[0].storage()

    assert (len(storage), storage.size(), storage.nbytes(), storage.element_size()) == (4, 4, 16, 4)
    assert (storage.tolist(), list(storage), storage[-1]) == ([0, 1, 2, 3], [0, 1, 2, 3], 3)
    assert (storage.dtype, str(storage.device)) == (torch.float32, "cpu")
    assert storage.data_ptr() == x.untyped_storage().data_ptr() == x.data_ptr()
    assert repr(storage).splitlines()[-1] == (
        "[torch.storage.TypedStorage(dtype=torch.float32, device=cpu) of size 4]"
    )
    assert torch.is_storage(storage)
    assert isinstance(storage, torch.TypedStorage)
    with pytest.raises(IndexError, match="index 9 out of range for storage of size 4"):
        storage[9]


def test_what_is_written_to_a_storage_is_in_the_tensor(torch: Any) -> None:
    x = torch.zeros(3)
    storage = x.storage()
    storage[1] = 5

    assert (x.tolist(), x._version) == ([0, 5, 0], 0)
    storage.fill_(2)
    assert x.tolist() == [2, 2, 2]


def test_an_untyped_storage_is_bytes(torch: Any) -> None:
    storage = torch.tensor([1.0]).untyped_storage()

    assert isinstance(storage, torch.UntypedStorage)
    assert (storage.tolist(), storage[3], len(storage)) == ([0, 0, 128, 63], 63, 4)
    assert (
        repr(storage) == " 0\n 0\n 128\n 63\n[torch.storage.UntypedStorage(device=cpu) of size 4]"
    )


def test_questions_about_tensors(torch: Any) -> None:
    x = torch.ones(2, dtype=torch.complex64)

    assert [torch.is_signed(x), torch.is_signed(torch.ones(2, dtype=torch.uint8))] == [True, False]
    assert (torch.is_conj(x), torch.is_neg(x)) == (False, False)
    assert (torch.is_same_size(x, x), torch.is_same_size(x, x[:1])) == (True, False)


def test_a_storage_keeps_its_size_and_says_why() -> None:
    import gradscope.runtime as ours

    storage = ours.ones(4).untyped_storage()

    assert storage.resize_(16) is storage
    with pytest.raises(NotImplementedError, match=r"cannot resize a storage \(16 bytes"):
        storage.resize_(0)
