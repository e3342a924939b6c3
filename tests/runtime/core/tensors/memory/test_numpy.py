"""NumPy both ways: memory is shared, numbers and errors are PyTorch's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from gradscope.runtime.core.state import warned
from tests.runtime.both import raises, runtime

CALLS = """
torch.frombuffer(bytearray(b"abcdefgh"), dtype=torch.int16, count=2, offset=2)
torch.frombuffer(b"", dtype=torch.uint8)
torch.frombuffer(b"abc", dtype=torch.int16)
torch.frombuffer(b"abcd", dtype=torch.int16, count=3)
torch.frombuffer(b"abcd", dtype=torch.int16, offset=7)
torch.frombuffer(3, dtype=torch.int16)
np.asarray(torch.ones(2), dtype=np.float64)
np.asarray(torch.ones(2, requires_grad=True))
np.asarray(torch.ones(2).bfloat16())
torch.ones(2).bfloat16().numpy()
torch.ones(2, requires_grad=True).numpy(force=True)
torch.ones(2) + np.ones(2)
torch.ones(2) @ np.ones(2)
torch.ones(2) == np.ones(2)
torch.ones(2) * np.float64(2)
np.float32(2) * torch.ones(2)
np.sin(torch.ones(2))
np.maximum(torch.ones(2), 2)
np.isnan(torch.ones(2))
np.argmax(torch.ones(3))
np.concatenate([torch.ones(2), torch.ones(2)])
np.array([torch.tensor(1.0), torch.tensor(2.0)])
torch.as_tensor(np.ones(3)[::-1])
torch.tensor(np.ones(3)[::-1])
torch.from_numpy(np.ones(2, ">f4"))
torch.from_numpy(np.array(["a"]))
torch.from_numpy([1])
torch.arange(np.int64(3))
torch.full((2,), np.float32(2))
torch.full((np.int64(2),), np.int64(2))
torch.ones(2).sum(np.int64(0))
torch.tensor(np.float64(3))
torch.tensor([np.float32(3), 1])
torch.ones(3)[np.array([0, 2])]
torch.from_dlpack(np.ones(2))
torch.from_dlpack(torch.to_dlpack(torch.ones(2)))
torch.from_dlpack(3)
np.from_dlpack(torch.ones(2))
torch.ones(2).__dlpack_device__()
torch.ones(2, requires_grad=True).__dlpack__()
torch.ones(3).apply_(lambda v: v + 1)
torch.ones(2, requires_grad=True).apply_(lambda v: v)
torch.ones(3, dtype=torch.int64).map_(torch.tensor([2]), lambda v, w: v + w)
torch.ones(2).map_(torch.ones(3), lambda v, w: v)
torch.ones(2).map_(3, lambda v, w: v)
torch.ones(2).apply_(lambda v: "a")
torch.ones(2).pin_memory()
torch.tensor([0.0]).is_nonzero()
"""


def told(torch: Any, call: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return repr(eval(call, {"torch": torch, "np": np}))
        except Exception as error:
            return f"{type(error).__name__}: {str(error).splitlines()[0]}"


@pytest.mark.torch
@pytest.mark.parametrize("call", CALLS.strip().splitlines())
def test_a_call_with_numpy_gives_what_pytorch_gives(call: str) -> None:
    import torch as real

    assert told(runtime(), call) == told(real, call)


def test_memory_is_shared_both_ways(torch: Any) -> None:
    array = np.zeros(3, np.float32)
    ways = [
        torch.from_numpy(array),
        torch.as_tensor(array),
        torch.asarray(array),
        torch.from_dlpack(array),
        torch.frombuffer(array, dtype=torch.float32),
    ]
    array[0] = 7
    ways[0][1] = 8

    assert [way.tolist() for way in ways] == [[7.0, 8.0, 0.0]] * 5
    back = [ways[0].numpy(), np.asarray(ways[0]), np.from_dlpack(ways[0]), ways[0].detach().numpy()]
    assert all(np.shares_memory(each, array) for each in back)


def test_a_write_through_numpy_is_not_counted_and_one_of_a_tensor_is(torch: Any) -> None:
    x = torch.ones(2)
    x.numpy()[0] = 5
    other = torch.from_numpy(x.numpy())
    other.add_(1)

    assert (x._version, other._version, x.tolist()) == (0, 1, [6.0, 2.0])


def test_both_engines_share_memory_through_dlpack() -> None:
    real = pytest.importorskip("torch")
    ours, theirs = runtime().zeros(3), real.zeros(3)
    seen_there, seen_here = real.from_dlpack(ours), runtime().from_dlpack(theirs)
    seen_there[0] = 1
    seen_here[1] = 2

    assert (ours.tolist(), theirs.tolist()) == ([1.0, 0.0, 0.0], [0.0, 2.0, 0.0])


def test_an_array_nobody_may_write_to_is_warned_of_once(
    torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warned, "_said", set())
    array = np.frombuffer(b"abcd", np.uint8)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tensors = [torch.from_numpy(array) for _ in range(2)]

    assert [t.tolist() for t in tensors] == [[97, 98, 99, 100]] * 2
    texts = [str(each.message) for each in caught]
    assert all(text.startswith("The given NumPy array is not writable") for text in texts)
    assert len(texts) <= 1


def test_a_file_is_mapped(torch: Any, tmp_path: Any) -> None:
    path = str(tmp_path / "numbers")
    shared = torch.from_file(path, shared=True, size=4)
    shared.fill_(3)
    del shared

    assert torch.from_file(path, size=4, dtype=torch.float32).tolist() == [3.0] * 4


def test_shared_memory_is_seen_by_a_forked_process(torch: Any) -> None:
    context = torch.multiprocessing.get_context("fork")
    linear = torch.nn.Linear(2, 2)
    linear.share_memory()
    assert linear.weight.is_shared()
    assert not torch.ones(2).is_shared()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks among threads
        child = context.Process(target=lambda: linear.weight.data.fill_(7.0))
        child.start()
        child.join()

    assert linear.weight.tolist() == [[7.0, 7.0]] * 2


def test_a_tensor_of_another_process_comes_through_a_queue() -> None:
    torch = runtime()
    context = torch.multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    x = torch.arange(6.0).view(2, 3).t()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = context.Process(target=lambda: (queue.put(x), queue.put(None)))
        child.start()
        found = queue.get().clone()
        queue.get()
        child.join()

    assert (found.tolist(), found.shape) == (x.tolist(), x.shape)


def test_what_has_a_history_stays_in_its_process() -> None:
    torch = runtime()
    made = torch.ones(2, requires_grad=True) * 2

    assert raises(
        RuntimeError,
        lambda: torch.multiprocessing.SimpleQueue().put(made),
    ).startswith("Cowardly refusing to serialize non-leaf tensor which requires_grad")
