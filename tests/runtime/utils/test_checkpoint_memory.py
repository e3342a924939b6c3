"""A checkpoint keeps only the memory it promises to keep."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from tests.runtime.both import leaf, runtime
from tests.runtime.utils.test_checkpoint import BOTH, parts


@pytest.fixture(autouse=True)
def _without_the_garbage_collector() -> Iterator[None]:
    """What is let go of is gone at once: nothing here closes a cycle."""
    gc.disable()
    yield
    gc.enable()


class Watched:
    """A function whose intermediate results are watched: a saved tensor lives on."""

    def __init__(self, count: int = 3) -> None:
        self.count = count
        self.results: list[weakref.ref[Any]] = []

    def __call__(self, x: Any) -> Any:
        for _ in range(self.count):
            x = x.sin()
            self.results.append(weakref.ref(x))
            x = x.cos()
        return x

    def alive(self) -> int:
        return sum(ref() is not None for ref in self.results)


def test_without_a_checkpoint_saved_tensors_are_held(torch: Any) -> None:
    run = Watched()
    y = run(leaf(torch, 0.5))
    assert run.alive() == 3
    y.backward()
    assert run.alive() == 0


@BOTH
def test_nothing_of_a_region_is_held_between_forward_and_backward(
    torch: Any, use_reentrant: bool
) -> None:
    run = Watched()
    y = parts(torch).checkpoint(run, leaf(torch, 0.5), use_reentrant=use_reentrant)
    assert run.alive() == 0
    y.backward()
    assert len(run.results) == 6
    assert run.alive() == 0


def packed_by(torch: Any, alive: list[weakref.ref[Any]]) -> Any:
    """Hooks around everything, which see what is really kept: only what no checkpoint took."""

    def pack(tensor: Any) -> Any:
        kept = tensor.clone()
        alive.append(weakref.ref(kept))
        return kept

    return torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept)


def test_all_that_is_saved_around_nested_regions_is_the_input_of_the_outermost(torch: Any) -> None:
    kept: list[weakref.ref[Any]] = []
    checkpoint = parts(torch).checkpoint
    with packed_by(torch, kept):
        y = checkpoint(
            lambda x: checkpoint(Watched(), x.sin(), use_reentrant=False).cos(),
            leaf(torch, 0.5),
            use_reentrant=False,
        )
    assert len(kept) == 1
    y.backward()
    del y
    assert [ref() for ref in kept] == [None]


def test_a_backward_that_keeps_the_graph_lets_go_of_what_was_recomputed(torch: Any) -> None:
    run = Watched()
    y = parts(torch).checkpoint(run, leaf(torch, 0.5), use_reentrant=False)
    for _ in range(3):
        y.backward(retain_graph=True)
        assert run.alive() == 0
    assert len(run.results) == 12


def test_only_one_region_is_back_at_a_time(torch: Any) -> None:
    regions = [Watched(), Watched(), Watched()]
    held: list[list[int]] = []
    x = leaf(torch, 0.5)
    for run in regions:
        x = parts(torch).checkpoint(run, x, use_reentrant=False)
        x.register_hook(lambda grad: held.append([run.alive() for run in regions]))
    x.backward()

    assert held == [[0, 0, 0]] * 3


def test_a_region_goes_with_its_graph(torch: Any) -> None:
    run = Watched()
    x = leaf(torch, 0.5)
    h = x * 2
    held = weakref.ref(h)
    y = parts(torch).checkpoint(run, h, use_reentrant=False)
    del h
    assert held() is not None
    del y
    assert held() is None


def test_a_region_whose_backward_is_done_lets_go_of_its_input(torch: Any) -> None:
    run = Watched()
    h = leaf(torch, 0.5) * 2
    held = weakref.ref(h)
    y = parts(torch).checkpoint(run, h, use_reentrant=False)
    del h
    y.backward()

    assert held() is None


@pytest.mark.parametrize("early_stop", [True, False])
def test_a_part_that_no_backward_reaches_is_not_kept_after_it(torch: Any, early_stop: bool) -> None:
    first, second = Watched(), Watched()
    x = leaf(torch, 0.5)
    y, z = parts(torch).checkpoint(
        lambda x: (first(x), second(x)), x, use_reentrant=False, early_stop=early_stop
    )
    y.backward()
    assert (len(first.results), len(second.results)) == (6, 6)
    assert first.alive() == 0
    del z
    assert second.alive() == 0


MEGABYTE = 1 << 20


def test_the_peak_of_a_backward_is_one_region_not_all() -> None:
    """In bytes, which NumPy tells and PyTorch does not."""
    torch = runtime()
    checkpoint = parts(torch).checkpoint

    def layers(x: Any) -> Any:
        for _ in range(4):
            x = x.sin()
        return x

    def peaks(run: Any) -> tuple[float, float]:
        """What is held between forward and backward, and the most in the backward."""
        x = torch.ones(MEGABYTE // 8, dtype=torch.float64, requires_grad=True)
        tracemalloc.start()
        try:
            y = x
            for _ in range(4):
                y = run(y)
            held, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            y.backward(torch.ones_like(y))
            return held / MEGABYTE, tracemalloc.get_traced_memory()[1] / MEGABYTE
        finally:
            tracemalloc.stop()

    plain, plain_peak = peaks(layers)
    held, peak = peaks(lambda x: checkpoint(layers, x, use_reentrant=False))
    reentrant, _ = peaks(lambda x: checkpoint(layers, x, use_reentrant=True))

    assert round(plain) == 16
    assert round(held) == round(reentrant) == 4  # the results of the four regions
    assert plain_peak > 16
    assert peak < 13  # those, one region's four, and what one node needs to run
