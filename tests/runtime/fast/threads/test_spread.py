"""Kernels in several threads: the same bits, errors that come through, and no thread in vain."""

from __future__ import annotations

import os
import threading
from _thread import get_ident
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

from gradscope.runtime.core.kernels.arrays import elementwise as plain, stepping
from gradscope.runtime.core.kernels.layers import attention, norms
from gradscope.runtime.core.kernels.random import random
from gradscope.runtime.core.kernels.special import special
from gradscope.runtime.core.kernels.support import fast
from gradscope.runtime.core.kernels.windows import convolution, grid, pool, resample, taps
from gradscope.runtime.core.kernels.windows.spans import regular
from gradscope.runtime.core.kernels.windows.windows import windows
from gradscope.runtime.core.state import settings
from gradscope.runtime.fast.layers import row_softmax as rows
from gradscope.runtime.fast.threads import spread
from gradscope.runtime.fast.threads.awake import Counts
from gradscope.runtime.fast.threads.spread import set_kernel_threads

DEAR = float(spread.LEAST + spread.WAKING)
"""Nanoseconds for which a thread is woken."""


@pytest.fixture(autouse=True)
def _threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Several threads are always worth it here, whatever else the machine does."""
    monkeypatch.setattr(spread, "WORTH", float("inf"))
    before = spread._State.threads
    yield
    set_kernel_threads(before)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wake threads for the least work, so that small arrays show what large ones do."""
    monkeypatch.setattr(spread, "LEAST", 1)
    monkeypatch.setattr(spread, "WAKING", 0)


class Seen:
    """Who made which part; the caller waits with its own for so many others."""

    def __init__(self, others: int = 0) -> None:
        self.parts: list[tuple[int, int]] = []
        self.threads: set[int] = set()
        self.others = others
        self.come = threading.Semaphore(0)

    def __call__(self, first: int, last: int) -> None:
        self.parts.append((first, last))
        self.threads.add(get_ident())
        if first:
            self.come.release()
        for _ in range(0 if first else self.others):
            self.come.acquire()


def spread_in(threads: int, count: int, multiple: int = 1, others: int = 0) -> Seen:
    seen = Seen(others)
    set_kernel_threads(threads)
    spread.spread(seen, count, DEAR, multiple)
    seen.parts.sort()
    return seen


def test_each_thread_makes_a_part() -> None:
    seen = spread_in(3, 10, others=2)

    assert seen.parts == [(0, 3), (3, 6), (6, 10)]
    assert get_ident() in seen.threads
    assert len(seen.threads) == 3


def test_a_part_for_which_no_thread_comes_is_made_by_the_caller() -> None:
    spread_in(2, 2, others=1)  # a thread is there
    pool, held, free = spread._State.pool, threading.Event(), threading.Event()

    def hold(first: int, last: int) -> None:
        held.set()
        free.wait()

    queue, counts = pool.waiting[0]
    queue.put((hold, 0, 1, SimpleQueue()))  # … and has something else to do
    counts.given()
    held.wait()
    seen = spread_in(2, 2)
    free.set()

    assert seen.parts == [(0, 1), (1, 2)]
    assert seen.threads == {get_ident()}
    assert len(spread_in(2, 2, others=1).threads) == 2


def test_parts_begin_at_multiples() -> None:
    assert spread_in(3, 10, 4).parts == [(0, 4), (4, 8), (8, 10)]
    assert spread_in(3, 10, 8).parts == [(0, 8), (8, 10)]
    assert spread_in(3, 10, 16).parts == [(0, 10)]


def test_one_thread_or_little_to_do_is_one_call_here() -> None:
    one, little = spread_in(1, 10), spread_in(3, 1)

    assert (one.parts, one.threads) == ([(0, 10)], {get_ident()})
    assert (little.parts, little.threads) == ([(0, 1)], {get_ident()})


def test_after_several_threads_one_is_one_again() -> None:
    assert len(spread_in(2, 10, others=1).threads) == 2
    assert spread_in(1, 10).threads == {get_ident()}


def test_where_several_threads_do_not_help_the_caller_goes_on_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spread, "WORTH", -1.0)
    monkeypatch.setattr(Counts, "is_awake", lambda counts: True)
    set_kernel_threads(2)
    parts: list[int] = []
    for _ in range(9):
        seen = Seen()
        spread.spread(seen, 2, DEAR)
        parts.append(len(seen.parts))

    assert parts == [2, 1, 2, 1, 1, 2, 1, 1, 1]


def test_a_thread_that_had_to_be_woken_is_no_sign_of_cores_that_are_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spread, "WORTH", -1.0)
    monkeypatch.setattr(Counts, "is_awake", lambda counts: False)
    set_kernel_threads(2)
    parts: list[int] = []
    for _ in range(3):
        seen = Seen()
        spread.spread(seen, 2, DEAR)
        parts.append(len(seen.parts))

    assert parts == [2, 2, 2]


@pytest.mark.parametrize(("taken", "left"), [(50, 0), (84, 0), (86, 1), (200, 1)])
def test_help_is_what_takes_less_time_than_one_thread(
    taken: int, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spread, "WORTH", 0.85)
    set_kernel_threads(2)

    spread._look_at(taken, by_one=100)

    assert spread._State.left == left


def test_the_program_says_how_many() -> None:
    before = settings.chosen_threads()
    settings.put_num_threads(3)
    seen = Seen()
    spread.spread(seen, 9, DEAR)
    settings.put_num_threads(before)

    assert len(seen.parts) == 3


@pytest.mark.parametrize("place", [0, 1])
def test_an_error_comes_through_when_all_are_done(place: int) -> None:
    done = []

    def part(first: int, last: int) -> None:
        done.append(first)
        if first == place:
            raise ValueError(f"of {first}")

    set_kernel_threads(2)
    with pytest.raises(ValueError, match=f"of {place}"):
        spread.spread(part, 2, DEAR)

    assert sorted(done) == [0, 1]
    assert len(spread_in(2, 10).parts) == 2


def test_while_the_threads_are_busy_others_compute_by_themselves() -> None:
    inner, outer = Seen(), threading.Event()

    def part(first: int, last: int) -> None:
        if first == 0:
            thread = threading.Thread(target=lambda: spread.spread(inner, 10, DEAR))
            thread.start()
            thread.join()
            outer.set()

    set_kernel_threads(2)
    spread.spread(part, 2, DEAR)

    assert outer.is_set()
    assert inner.parts == [(0, 10)]


def test_a_part_that_spreads_does_all_of_it() -> None:
    inner = [Seen(), Seen()]

    set_kernel_threads(2)
    spread.spread(lambda first, last: spread.spread(inner[first], 10, DEAR), 2, DEAR)

    assert [each.parts for each in inner] == [[(0, 10)], [(0, 10)]]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_forked_child_has_threads_of_its_own() -> None:
    spread_in(2, 10)
    read, write = os.pipe()
    child = os.fork()
    if not child:
        seen = spread_in(2, 10, others=1)
        os.write(write, bytes([len(seen.parts), len(seen.threads)]))
        os._exit(0)
    os.close(write)

    with os.fdopen(read, "rb") as told:
        assert told.read() == bytes([2, 2])
    assert os.waitpid(child, 0)[1] == 0


def numbers(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


LARGE = (5, 7, 31, 67)
HOW = attention.How(0.5, causal=True)
KINDS = (np.float32, np.float64)


def of_norms(kind: Any) -> Iterator[Callable[[], Any]]:
    x, grad = numbers(*LARGE, dtype=kind), numbers(*LARGE, dtype=kind, seed=1)
    mean, rstd = numbers(5, 7, 31, 1, dtype=kind), numbers(5, 7, 31, 1, dtype=kind, seed=2)
    vector = numbers(67, dtype=kind)
    channels = numbers(7, dtype=kind)
    needs = (True, True, True)
    yield lambda: norms.layer_norm(x, 1, vector, vector, 1e-5)
    yield lambda: norms.layer_norm_backward(grad, x, mean, rstd, vector, 1, needs)
    yield lambda: norms.batch_moments(x, 1e-5)
    yield lambda: norms.batch_norm(x, channels, channels, channels, channels)
    yield lambda: norms.batch_norm_backward(grad, x, channels, channels, channels, needs, True)
    yield lambda: norms.group_norm(x, 7, channels, channels, 1e-5)
    groups = numbers(5, 7, dtype=kind)
    yield lambda: norms.group_norm_backward(grad, x, groups, groups, channels, 7, needs)


def of_rows() -> Iterator[Callable[[], Any]]:
    x, grad = numbers(*LARGE), numbers(*LARGE, seed=1)
    for function in (rows.softmax, rows.log_softmax):
        yield lambda function=function: function(x)
    for backward in (rows.softmax_backward, rows.log_softmax_backward):
        yield lambda backward=backward: backward(grad, x)
    queries = numbers(3, 5, 67, 16)
    made, logs = attention.attention(queries, queries, queries, HOW)
    yield lambda: attention.attention(queries, queries, queries, HOW)
    yield lambda: attention.attention_backward(queries, queries, queries, queries, made, logs, HOW)


def of_elements() -> Iterator[Callable[[], Any]]:
    x, grad = numbers(*LARGE), numbers(*LARGE, seed=1)
    unit = np.random.default_rng(0).random(1 << 16)
    for kind in ("none", "tanh"):
        yield lambda kind=kind: plain.gelu(x, kind)
        yield lambda kind=kind: plain.gelu_backward(grad, x, kind)
    yield lambda: plain.relu(x)
    yield lambda: plain.threshold_backward(grad, x, 0.1)
    yield lambda: plain.silu(x)
    yield lambda: plain.silu_backward(grad, x.transpose(1, 0, 2, 3).reshape(LARGE))
    yield lambda: special.erf(x)
    yield lambda: special.erf(x.astype(np.float64))
    yield lambda: special.erfc(x)
    for dtype in KINDS:
        yield lambda dtype=dtype: random.normal_blocks(unit.astype(dtype))
    yield lambda: fast().log1p_float64(unit)


def of_windows(kind: Any) -> Iterator[Callable[[], Any]]:
    x = numbers(3, 6, 57, 71, dtype=kind)
    pooled = [
        (regular(57, 2, 2), regular(71, 2, 2)),
        (regular(57, 3, 2, 1), regular(71, 3, 2, 1)),
        (regular(57, 3, 1, 1, 2), regular(71, 3, 1, 1, 2)),
    ]
    for spans in pooled:
        values, where = pool.max_pool(x, spans)
        yield lambda spans=spans: pool.max_pool(x, spans)
        yield lambda values=values, where=where: pool.max_pool_backward(values, where, x.shape, 2)
    values = pool.avg_pool(x, pooled[1])
    yield lambda: pool.avg_pool(x, pooled[1])
    yield lambda: pool.avg_pool_backward(values, x.shape, pooled[1])
    for stride, out in ((1, (57, 71)), (2, (29, 36))):
        w = windows((57, 71), (3, 3), out, (stride,) * 2, (1, 1), (1, 1))
        for groups, weight in ((1, (24, 6, 3, 3)), (6, (12, 1, 3, 3))):
            arrays = numbers(*weight, dtype=kind), numbers(3, weight[0], *out, dtype=kind)
            yield from of_convolutions(x, *arrays, w, groups)


def of_convolutions(
    x: Any, weight: Any, grad: Any, w: Any, groups: int
) -> Iterator[Callable[[], Any]]:
    yield lambda: convolution.forward(x, weight, w, groups)
    yield lambda: convolution.to_input(grad, weight, w, groups)
    yield lambda: convolution.to_weight(grad, x, w, groups)


def of_places(kind: Any) -> Iterator[Callable[[], Any]]:
    x = numbers(3, 6, 57, 71, dtype=kind)
    at = np.random.default_rng(0).uniform(-1.1, 1.1, (3, 40, 31, 2)).astype(kind)
    grad = numbers(3, 6, 40 * 31, dtype=kind)
    for mode in (grid.BILINEAR, grid.BICUBIC):
        options = (mode, grid.REFLECTION, False)
        yield lambda options=options: grid.sample(x, at, options)
        yield lambda options=options: grid.sample_backward(grad, x, at, options, (True, True))
    for tables in (
        [taps.nearest(57, 80, None, False), taps.nearest(71, 90, None, False)],
        [taps.linear(n, m, None, False, np.dtype(kind)) for n, m in ((57, 80), (71, 90))],
        [taps.cubic(n, m, None, False, np.dtype(kind)) for n, m in ((57, 80), (71, 90))],
    ):
        yield lambda tables=tables: resample.resample(x, tables)


def of_optimizers(kind: Any) -> Iterator[Callable[[], Any]]:
    """Arrays of which some are cut: by whole ones the parts would be too unlike."""

    def step(name: str, options: Any, states: int) -> Any:
        sizes = (3, 70_001, 1, 5, 20_000, 17)
        lists = [[np.abs(numbers(n, dtype=kind, seed=k)) for n in sizes] for k in range(states)]
        getattr(stepping, name)(options, lists)
        return [array for arrays in lists for array in arrays]

    sgd = stepping.SGDOptions(0.1, 0.01, 0.9, 0, True, False)
    adam = stepping.AdamOptions(0.99, 0.1, 0.1, 0.9, 0.1, 1, 1e-8, 0.1, False)
    rmsprop = stepping.RMSpropOptions(0.1, 0.9, 1e-8, 0.1, 0.9, True, False)
    yield lambda: step("sgd", sgd, 3)
    yield lambda: step("adam", adam, 5)
    yield lambda: step("rmsprop", rmsprop, 5)


FAMILIES: dict[str, Callable[[], Iterator[Callable[[], Any]]]] = {
    "norms, float32": lambda: of_norms(np.float32),
    "norms, float64": lambda: of_norms(np.float64),
    "windows, float32": lambda: of_windows(np.float32),
    "windows, float64": lambda: of_windows(np.float64),
    "places, float32": lambda: of_places(np.float32),
    "places, float64": lambda: of_places(np.float64),
    "optimizers, float32": lambda: of_optimizers(np.float32),
    "optimizers, float64": lambda: of_optimizers(np.float64),
    "rows": of_rows,
    "elements": of_elements,
}


def bits(found: Any) -> list[bytes]:
    each = found if isinstance(found, tuple | list) else (found,)
    return [array.tobytes() for array in each if array is not None]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.usefixtures("eager")
def test_results_have_the_same_bits_in_any_number_of_threads(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[int] = []
    run = spread._run
    monkeypatch.setattr(spread, "_run", lambda *a: (runs.append(len(a[1])), run(*a))[1])
    for nr, function in enumerate(FAMILIES[family]()):
        found = []
        for threads in (1, 2, 3):
            set_kernel_threads(threads)
            runs.clear()
            found.append(bits(function()))
            assert (threads in runs) is (threads > 1), (nr, threads, runs)
        assert found[0] == found[1] == found[2], nr


@pytest.mark.usefixtures("eager")
def test_a_parameter_that_is_there_twice_is_stepped_once_after_the_other() -> None:
    options = stepping.SGDOptions(0.1, 0, 0, 0, False, False)
    found = []
    for threads in (1, 2):
        set_kernel_threads(threads)
        param, grad = np.zeros(70_000, np.float32), np.ones(70_000, np.float32)
        stepping.sgd(options, [[param, param], [grad, grad]])
        found.append(param.tolist())

    assert found[0] == found[1]
    assert found[0][0] == pytest.approx(-0.2)
