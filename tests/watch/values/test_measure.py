"""What machine code says of tensors, beside what NumPy says of the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isnan, nan
from typing import Any

import numpy as np
import pytest

from gradscope.record.notes.statistics import Statistics, statistics

pytestmark = pytest.mark.torch


def looked_at(tensors: list[Any]) -> tuple[list[Statistics], int]:
    """The statistics of those that can be read, and how many cannot."""
    from gradscope.watch.values.ring import Ring
    from gradscope.watch.values.ring_rows import STAMP

    ring = Ring()
    for tensor in tensors:
        ring.look(0, 0, 0, 0, 0, 0, 0, tensor._cdata)
    rows, lost, bad = ring.read()
    assert lost == 0
    found = ring.columns(rows)
    columns = (*(getattr(found, name) for name in Statistics._fields[:9]), found.norm())
    places = [bad.get(stamp, ()) for stamp in rows[:, STAMP].tolist()]
    numbers = zip(*(column.tolist() for column in columns), places, strict=True)
    return [Statistics(*row) for row in numbers], ring.unread


def expected(tensor: Any) -> Statistics:
    import torch

    plain = tensor.detach()
    return statistics((plain.float() if plain.dtype is torch.bfloat16 else plain).numpy())


def is_alike(one: Statistics, other: Statistics) -> bool:
    """Counts, least, greatest and bad places to the letter; what is added up nearly so."""
    if one[:5] != other[:5] or one.bad != other.bad:
        return False
    exact = all(
        a == b or (isnan(a) and isnan(b)) for a, b in zip(one[5:7], other[5:7], strict=True)
    )
    near = 1e-12 * other.norm if np.isfinite(other.norm) else 0.0
    return exact and bool(np.allclose(one[7:10], other[7:10], rtol=1e-9, atol=near, equal_nan=True))


def of_every_layout() -> Iterator[Any]:
    import torch

    made = torch.randn(2, 3, 4, 5, 6, 7)
    yield from (made, made.transpose(1, 4), made.permute(3, 0, 5, 1, 2, 4), made[0, 1:, ::2])
    yield from (made.sum(), made[:0], made[0, 0, 0, 0].t(), torch.nn.Parameter(made[0]))
    yield from (torch.randn(64, 64).chunk(4, 1)[1], torch.randn(64, 64)[::2].t())
    yield from (torch.ones(1).expand(4, 5), torch.randn(3, 1, 5).expand(2, 3, 4, 5).transpose(0, 3))
    yield torch.as_strided(torch.randn(20), (3, 4), (1, 2))  # what lies twice counts twice
    yield torch.randn(8, 3, 9, 9).to(memory_format=torch.channels_last)
    yield torch.zeros(7, 9) - 0.0


def of_every_kind() -> Iterator[Any]:
    import torch

    from gradscope.machine_code.statistics import KINDS

    for kind in KINDS:
        for many in (1, 7, 8, 9, 100, 4096, 10_001):
            yield (torch.randn(many) * 60).to(getattr(torch, kind))
    yield torch.randn(5000).half() * 1e-7  # less than what is normal
    for large in (1e300, 1e308):
        yield torch.tensor([large, -large / 3, 1.0], dtype=torch.float64)
        yield torch.complex(*torch.full((2, 3), large, dtype=torch.float64))
    yield torch.tensor([3.4e38, -3.4e38])


def of_every_fault() -> Iterator[Any]:
    import torch

    for kind in ("float64", "float32", "float16", "bfloat16", "complex64", "complex128"):
        for many in (1, 5, 8, 100, 5000):
            made = torch.randn(many).to(getattr(torch, kind))
            for value, place in ((nan, 0), (inf, many // 2), (-inf, many - 1), (nan, many - 1)):
                made = made.clone()
                made[place] = value
                yield from (made, made.expand(3, many).t(), made.repeat(3, 1).t())
            yield torch.full((many,), nan).to(getattr(torch, kind))


@pytest.mark.parametrize("samples", [of_every_layout, of_every_kind, of_every_fault])
def test_statistics_are_those_of_numpy(samples: Any) -> None:
    tensors = list(samples())

    found, unread = looked_at(tensors)

    with np.errstate(all="ignore"):
        wanted = [expected(tensor) for tensor in tensors]
    assert unread == 0
    assert [
        (str(tensor.dtype), tuple(tensor.shape), tensor.stride(), one, other)
        for tensor, one, other in zip(tensors, found, wanted, strict=True)
        if not is_alike(one, other)
    ] == []


def test_what_is_repeated_is_counted_as_often_and_looked_at_once() -> None:
    import torch

    ((one, two), unread) = looked_at(
        [torch.full((1,), 2.0).expand(10**12), torch.tensor([0.0, nan]).expand(10**6, 2)]
    )

    assert (one.size, one.mean, one.norm, unread) == (10**12, 2.0, 2e6, 0)
    assert (two.zero, two.nan, two.bad[:3]) == (10**6, 10**6, (1, 3, 5))


def test_what_is_no_plain_tensor_on_the_cpu_is_not_read() -> None:
    import torch

    strange = [
        torch.ones(2, device="meta"), torch.ones(2, dtype=torch.complex64).conj(),
        torch.ones(2, 2).to_sparse(), torch.imag(torch.ones(2, dtype=torch.complex64).conj()),
    ]  # fmt: skip

    assert looked_at(strange) == ([], len(strange))


def test_memory_that_a_tensor_no_longer_has_is_not_read() -> None:
    import torch

    gone = torch.ones(1000)
    gone.untyped_storage().resize_(16)

    assert looked_at([gone]) == ([], 1)


def test_who_reads_late_is_told_how_many_rows_were_lost() -> None:
    import torch

    from gradscope.watch.values.ring import CAPACITY, Ring

    ring, tensor = Ring(), torch.ones(1)
    for _ in range(CAPACITY + 10):
        ring.look(0, 0, 0, 0, 0, 0, 0, tensor._cdata)

    assert ring.is_filling()
    rows, lost, _ = ring.read()
    assert (len(rows), lost) == (CAPACITY, 10)
    assert not ring.is_filling()
