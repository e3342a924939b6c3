"""Memory is read only where it is a tensor's own, whatever kind of tensor that is."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from tests.record.from_pytorch.watching import recorded

pytestmark = pytest.mark.torch


def plain() -> dict[str, Any]:
    """Tensors that may be read, each with what it holds when it is made dense."""
    import torch

    class Named(torch.Tensor):
        pass

    base = torch.arange(12.0).view(3, 4)
    kinds = ("float64", "float16", "bfloat16", "complex64", "bool", "int64", "uint8")
    with torch.inference_mode():
        inference = torch.ones(3)
    resized = torch.ones(4)
    resized.untyped_storage().resize_(64)
    return {
        **{kind: torch.ones(3, dtype=getattr(torch, kind)) for kind in kinds},
        "float8": torch.ones(3).to(torch.float8_e4m3fn),
        "parameter": torch.nn.Parameter(base.clone()),
        "buffer": torch.nn.Buffer(torch.ones(3)),
        "subclass": torch.ones(3).as_subclass(Named),
        "with history": torch.ones(3, requires_grad=True) * 2,
        "view": base[1:, 1:3],
        "expanded": torch.ones(3, 1).expand(3, 4),
        "without elements": torch.ones(0, 3),
        "number": torch.tensor(3.0),
        "inference": inference,
        "lazy copy": torch._lazy_clone(torch.ones(3)),
        "resized": resized,
        "masked": torch.masked.masked_tensor(torch.ones(3), torch.ones(3) > 0).get_data(),
    }


def others() -> dict[str, Any]:
    """Tensors that have no such memory, or show other numbers than are there."""
    import torch
    from torch._subclasses import FakeTensorMode

    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, inner: Any) -> Any:
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, *_: Any) -> Any:
            raise AssertionError("a look at memory calls nothing")

    freed, cut = torch.ones(5), torch.ones(64)
    freed.untyped_storage().resize_(0)
    cut.untyped_storage().resize_(64)
    inside: list[Any] = []
    torch.vmap(lambda x: inside.append(x) or x)(torch.ones(3, 2))
    torch.func.grad(lambda x: inside.append(x) or x.sum())(torch.ones(3))
    torch.func.jvp(lambda x: inside.append(x) or x, (torch.ones(3),), (torch.ones(3),))
    one = torch.ones(3, dtype=torch.complex64)
    parts = [torch.ones(2), torch.ones(3)]
    return {
        "wrapper": Wrapper(torch.ones(3)),
        "fake": FakeTensorMode().from_tensor(torch.ones(3)),
        "functional": torch._to_functional_tensor(torch.ones(3)),
        "meta": torch.ones(3, device="meta"),
        "coo": torch.ones(3, 3).to_sparse(),
        "csr": torch.ones(3, 3).to_sparse_csr(),
        "quantised": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
        "nested": torch.nested.nested_tensor(parts),
        "jagged": torch.nested.nested_tensor(parts, layout=torch.jagged),
        "masked": torch.masked.masked_tensor(torch.ones(3), torch.ones(3) > 0),
        "mkldnn": torch.ones(3).to_mkldnn(),
        "conjugate": one.conj(),
        "negative": torch.imag(one.conj()),
        "zero tensor": torch._efficientzerotensor(3),
        "freed": freed,
        "cut short": cut,
        "vmap": inside[0],
        "grad": inside[1],
        "jvp": inside[2],
        "dtensor": distributed(),
    }


def distributed() -> Any:
    """A DTensor, on ranks that are not there."""
    import torch
    from torch import distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())  # type: ignore[no-untyped-call]
    try:
        mesh = init_device_mesh("cpu", (2,))
        return distribute_tensor(torch.ones(4, 4), mesh, [Shard(0)], src_data_rank=None)
    finally:
        dist.destroy_process_group()


def quietly(make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()


def test_a_plain_tensor_is_read_from_its_first_element_to_its_last() -> None:
    import torch

    from gradscope.watch.values.reachable import memory, not_looked_at

    tensors, before = quietly(plain), not_looked_at()
    for name, tensor in tensors.items():
        there = memory(tensor)
        assert there is not None, name
        if not tensor.numel():
            continue
        with torch.no_grad():
            flat = torch.frombuffer(bytearray(there), dtype=tensor.dtype)
            seen = flat.as_strided(tensor.shape, tensor.stride())
            dense = tensor.as_subclass(torch.Tensor).detach()
        assert [str(each) for each in seen.flatten()] == [str(each) for each in dense.flatten()], (
            name
        )
    assert not_looked_at() == before


def test_any_other_tensor_is_not_read_and_counted() -> None:
    from gradscope.watch.values.reachable import memory, not_looked_at

    tensors, before = quietly(others), not_looked_at()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read = [name for name, tensor in tensors.items() if memory(tensor) is not None]
    assert read == []
    assert not_looked_at() - before == len(tensors)


def test_where_keys_have_no_number_their_names_tell_plain_tensors_from_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PyTorch 2.4."""
    from gradscope.watch.values import reachable

    monkeypatch.setattr(reachable, "_raw", repr)
    monkeypatch.setattr(reachable, "_PLAIN", reachable._plain())
    test_a_plain_tensor_is_read_from_its_first_element_to_its_last()
    test_any_other_tensor_is_not_read_and_counted()


def test_compiled_readers_leave_the_same_tensors_alone() -> None:
    import torch

    from gradscope.watch.values.ring import Ring

    tensors, cdata, ring = quietly(others), torch.Tensor._cdata, Ring()
    for tensor in tensors.values():
        with torch._C.DisableTorchFunction():
            ring.look(0, 0, 0, 0, 0, 0, 0, cdata.__get__(tensor))
    rows, _, _ = ring.read()
    assert len(rows) == 0
    assert ring.unread == len(tensors)


def test_only_tensors_with_memory_of_their_own_have_an_address() -> None:
    from gradscope.watch.values.reachable import address

    tensors = quietly(others)
    alone = ("wrapper", "fake", "functional", "meta", "coo", "csr", "mkldnn", "freed", "vmap",
             "grad", "jagged", "dtensor", "zero tensor")  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [name for name in alone if address(tensors[name])] == []
    ours = {name: each for name, each in quietly(plain).items() if each.numel()}
    assert [name for name, each in ours.items() if address(each) == 0] == []


def test_a_leaf_that_shares_its_storage_until_it_is_written_goes_on_sharing_it() -> None:
    """Asked by `data_ptr()`, where it is, PyTorch copies it."""
    import torch

    def program() -> Any:
        leaf = torch._lazy_clone(torch.ones(3)).requires_grad_()
        (leaf * 2).sum().backward()
        return torch._C._is_cow_tensor(leaf)

    assert program()
    assert recorded(program, "graph")[0]


def test_a_fake_leaf_is_recorded_without_a_warning() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    def program() -> Any:
        import torch

        with FakeTensorMode():
            leaf = torch.ones(3, requires_grad=True)
            (leaf * 2).sum().backward()
        return leaf.grad

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        grad, trace = recorded(program, "engine")
    assert grad.shape == (3,)
    assert not [note for note in trace.notes if "fault" in note]


@pytest.mark.parametrize("level", ["engine", "values", "full"])
def test_of_a_sharded_parameter_only_this_ranks_part_is_looked_at(level: str) -> None:
    import torch

    def program() -> Any:
        weight = torch.nn.Parameter(quietly(lambda: {"": distributed()})[""])
        optimizer = torch.optim.SGD([weight], 0.1)
        for _ in range(2):
            (weight * 2).sum().backward()
            optimizer.step()
        return weight.grad

    grad, trace = recorded(program, level)
    assert type(grad).__name__ == "DTensor"
    unread = any("values of tensors that are not plain CPU tensors" in n for n in trace.notes)
    assert not unread
