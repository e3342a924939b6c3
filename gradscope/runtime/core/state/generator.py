"""Random numbers: PyTorch's CPU generator, so that a seed produces the same numbers as there."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import cached_property
from threading import Lock
from typing import Any, Final, Self

import numpy as np

from gradscope.runtime.core.dtypes.dtypes import from_numpy
from gradscope.runtime.core.dtypes.limits import finfo
from gradscope.runtime.core.dtypes.names import c_name, scalar_name
from gradscope.runtime.core.kernels.compile_notices import own_work
from gradscope.runtime.core.kernels.random import random, samplers
from gradscope.runtime.core.kernels.support import (
    HALVES,
    LARGE,
    Array,
    kernels_of,
    pays_from,
)
from gradscope.runtime.core.state import generator_bytes as generator_state
from gradscope.runtime.core.state.forking import waited_for

DEFAULT_SEED: Final = 67280421310721  # PyTorch's, for a generator that was never seeded
_FLOATS: Final = frozenset({random.FLOAT32, random.FLOAT64, *HALVES})
_WIDE_RANGE: Final = 1 << 28  # ranges of this length or longer take two words a number
_CHUNK: Final = 1 << 14  # numbers drawn at a time
_LARGEST: Final = {dtype: finfo(from_numpy(dtype)).max for dtype in _FLOATS}

COMPILED: Final = pays_from(1 << 15)  # count from which compiling the rejection loop pays off

Shape = tuple[int, ...]


fast_samplers: Final = kernels_of("random.fast_samplers")


class Generator:
    """A random number generator: a Mersenne twister and the second half of a normal pair.

    Methods return arrays of a shape and a NumPy dtype, in row-major order.
    """

    def __init__(self) -> None:
        self._lock = waited_for(Lock())
        self.manual_seed(DEFAULT_SEED)

    # Seeds and state

    def manual_seed(self, seed: int) -> Self:
        """Start the sequence of `seed`. Negative seeds count from 2**64 down."""
        if not isinstance(seed, int):
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
        if not -(1 << 63) <= seed < 1 << 64:
            raise ValueError("Overflow when unpacking long long")
        self._seed = seed % (1 << 64)
        if "_twister" in self.__dict__:
            _start(self._twister, self._seed)
        self._second_normal: float | None = None
        self._untouched = True
        return self

    @cached_property
    def _twister(self) -> Any:
        """NumPy's Mersenne twister. `numpy.random` is loaded only when something is drawn."""
        with own_work("loads random numbers"):
            twister = np.random.MT19937(0)
        _start(twister, self._seed)
        return twister

    def initial_seed(self) -> int:
        return self._seed

    def seed(self) -> int:
        """Start an unpredictable sequence, and return its seed."""
        self.manual_seed(int.from_bytes(os.urandom(8), "big"))
        return self._seed

    def get_state(self) -> Array:
        """Return the state as PyTorch's 5056 bytes."""
        with self._lock:
            return generator_state.pack(self._snapshot())

    def set_state(self, state: Array) -> Self:
        """Continue from a state returned by `get_state`."""
        snapshot = generator_state.unpack(state)
        with self._lock:
            self._seed = snapshot.seed
            self._untouched = snapshot.untouched
            self._second_normal = snapshot.second_normal
            self._twister.state = {
                "bit_generator": "MT19937",
                "state": {"key": snapshot.key, "pos": snapshot.position},
            }
        return self

    def _snapshot(self) -> generator_state.Snapshot:
        state: Any = self._twister.state
        return generator_state.Snapshot(
            seed=self._seed,
            key=state["state"]["key"],
            position=state["state"]["pos"],
            untouched=self._untouched,
            second_normal=self._second_normal,
        )

    # Words. The caller holds the lock.

    def _words(self, count: int) -> Array:
        if count:
            self._untouched = False
        return np.asarray(self._twister.random_raw(count))

    def _unit(self, count: int, dtype: np.dtype[Any]) -> Array:
        """Return numbers in [0, 1), from two words each for float64, from one for other dtypes."""
        wide = dtype == random.FLOAT64
        return self._made(count, dtype, np.float64 if wide else np.float32, np.asarray)

    def _made(
        self, count: int, drawn: np.dtype[Any], dtype: Any, make: Callable[[Array], Array]
    ) -> Array:
        """Apply `make` to `count` numbers in [0, 1), drawn as for dtype `drawn`."""
        wide = drawn == random.FLOAT64
        unit = random.unit_float64 if wide else random.unit_float32
        if count <= _CHUNK:
            return make(unit(self._words(count << wide)))
        made = np.empty(count, dtype)
        for start in range(0, count, _CHUNK):  # chunks stay in the cache
            part = made[start : start + _CHUNK]
            part[:] = make(unit(self._words(part.size << wide)))
        return made

    # Numbers

    def uniform(self, shape: Shape, dtype: Any, low: float = 0.0, high: float = 1.0) -> Array:
        """Return numbers in [low, high)."""
        dtype = np.dtype(dtype)
        if dtype.kind == "c":
            parts = self.uniform((*shape, 2), random.real_dtype(dtype), low, high)
            return np.asarray(parts.view(dtype)[..., 0])
        _check_float(dtype, "check_uniform_bounds")
        _check_bounds(low, high, dtype)
        with self._lock:
            made = self._made(
                math.prod(shape), dtype, dtype, lambda u: random.between(u, low, high, dtype)
            )
        return made.reshape(shape)

    def normal(
        self,
        shape: Shape,
        dtype: Any,
        mean: float = 0.0,
        std: float = 1.0,
        *,
        contiguous: bool = True,
    ) -> Array:
        """Return normal numbers. Fewer than 16, or for a strided tensor, are drawn in pairs."""
        dtype = np.dtype(dtype)
        if dtype.kind == "c":
            parts = self.normal((*shape, 2), random.real_dtype(dtype), mean, std / math.sqrt(2))
            return np.asarray(parts.view(dtype)[..., 0])
        if not std >= 0.0:
            raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
        _check_float(dtype, "normal_kernel_cpu")
        count = math.prod(shape)
        with self._lock:
            if count >= random.BLOCK and contiguous:
                values = self._normal_blocks(count, dtype, mean, std)
            else:
                values = random.scaled(self._normal_pairs(count), mean, std)
        return random.rounded(values, dtype).reshape(shape)

    def _normal_pairs(self, count: int) -> Array:
        """Return float64 numbers. An unused second of a pair is stored for the next call."""
        kept = [] if self._second_normal is None or not count else [self._second_normal]
        missing = count - len(kept)
        fresh = random.normal_pairs(self._unit(missing + missing % 2, random.FLOAT64))
        if count:
            self._second_normal = float(fresh[-1]) if missing % 2 else None
        return np.concatenate([kept, fresh[:missing]])

    def _normal_blocks(self, count: int, dtype: np.dtype[Any], mean: float, std: float) -> Array:
        """Return numbers in blocks of 16. A partial last block is the last 16 drawn again."""
        whole = count - count % random.BLOCK
        # For half dtypes PyTorch draws the tail once, for other floats twice.
        unit = self._unit(whole if dtype in HALVES else count, dtype)
        if whole == count:
            return self._scaled_blocks(unit, mean, std)
        tail = self._unit(random.BLOCK, dtype)
        blocks = random.normal_blocks(np.concatenate([unit[:whole], tail]))
        overlap = whole + random.BLOCK - count
        values = np.concatenate([blocks[: whole - overlap], blocks[whole:]])
        return random.scaled(values, mean, std)

    def _scaled_blocks(self, unit: Array, mean: float, std: float) -> Array:
        """Transform uniform numbers to normal ones in place."""
        many = unit.size >= LARGE
        for start in range(0, unit.size, _CHUNK):
            part = unit[start : start + _CHUNK]
            part[:] = random.scaled(random.normal_blocks(part, many=many), mean, std)
        return unit

    def normal_around(self, mean: Array, std: Array) -> Array:
        """Return one normal number for each pair of mean and standard deviation."""
        if np.any(std < 0):
            raise RuntimeError("normal expects all elements of std >= 0.0")
        shape = np.broadcast_shapes(mean.shape, std.shape)
        return np.asarray(self.normal(shape, mean.dtype) * std + mean)

    def integers(self, low: int, high: int, shape: Shape, dtype: Any = np.int64) -> Array:
        """Return integers in [low, high)."""
        if low >= high:
            raise RuntimeError(
                f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
            )
        reach, count = high - low, math.prod(shape)
        with self._lock:
            if reach < _WIDE_RANGE:
                words = self._words(count)
            else:
                words = random.pairs(self._words(2 * count))
        if reach < 1 << 64:
            words %= np.uint64(reach)
        values = words.view(np.int64) + np.int64(low)
        return values.astype(dtype).reshape(shape)

    def full_range(self, shape: Shape, dtype: Any) -> Array:
        """Return integers from zero to the dtype's maximum, as `random_()` does."""
        dtype = np.dtype(dtype)
        count = math.prod(shape)
        with self._lock:
            if dtype in (np.int64, np.uint64, np.float64):
                words = random.pairs(self._words(2 * count))
            else:
                words = self._words(count)
        return random.within_dtype(words, dtype).reshape(shape)

    def permutation(self, count: int, dtype: Any = np.int64) -> Array:
        """Return 0 to count - 1 in random order."""
        if count < 0:
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {count}: [{count}]"
            )
        with self._lock:
            words = self._words(max(count - 1, 0))
        return random.permutation(words, count).astype(dtype, copy=False)

    def bernoulli(self, p: float | Array, shape: Shape | None = None) -> Array:
        """Return True with probability p: one p for a shape, or an array with one p for each."""
        if isinstance(p, np.ndarray):
            if not np.all((p >= 0) & (p <= 1)):
                raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
            with self._lock:
                unit = self._unit(p.size, p.dtype)
            return np.asarray(unit.reshape(p.shape) < p.astype(unit.dtype, copy=False))
        if not 0 <= p <= 1:
            raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
        shape = () if shape is None else shape
        with self._lock:
            made = self._made(math.prod(shape), random.FLOAT64, np.bool_, lambda u: u < p)
        return made.reshape(shape)

    def exponential(self, shape: Shape, dtype: Any, rate: float = 1.0) -> Array:
        """Return exponentially distributed numbers."""
        if not rate > 0:
            raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={rate:g}")
        dtype = np.dtype(dtype)
        _check_float(dtype, "exponential_")
        with self._lock:
            if dtype == random.FLOAT64:
                unit = self._unit(math.prod(shape), dtype)
                return random.exponential(unit, rate, dtype).reshape(shape)
            made = self._made(
                math.prod(shape),
                random.FLOAT64,
                dtype,
                lambda u: random.exponential(u, rate, dtype),
            )
        return made.reshape(shape)

    def gamma(self, shapes: Array) -> Array:
        """Return float64 gamma numbers, one for each shape parameter."""
        return self._accepted("fill_gamma", 4, *samplers.gamma_constants(shapes))

    def poisson(self, rates: Array) -> Array:
        """Return Poisson counts of these rates, as float64."""
        small = float(np.max(rates, initial=1.0, where=rates < 10))
        return self._accepted("fill_poisson", 4 + math.ceil(small), rates)

    def binomial(self, counts: Array, ps: Array) -> Array:
        """Return binomial counts as float64."""
        counts, ps = np.broadcast_arrays(counts, ps)
        return self._accepted("fill_binomial", 14, counts, ps)

    def _accepted(self, fill: str, guess: int, *parameters: Array) -> Array:
        """Draw by rejection, see Note [Words taken one by one]; `guess` units for each at first."""
        rows = [np.ascontiguousarray(p, np.float64).reshape(-1) for p in parameters]
        out = np.empty(rows[0].size)
        run = getattr(samplers if out.size < COMPILED else fast_samplers(), fill)
        count = guess * out.size + 16
        with self._lock:
            before = self._twister.state
            while True:
                units = random.unit_float64(np.asarray(self._twister.random_raw(2 * count)))
                second = self._second_normal
                state = np.array([0.0, float(second is not None), second or 0.0])
                run(out, *rows, units, state)
                self._twister.state = before
                if state[0] <= count:
                    break
                count *= 2
            self._words(2 * int(state[0]))
            self._second_normal = float(state[2]) if state[1] else None
        return out.reshape(parameters[0].shape)

    def multinomial(self, weights: Array, count: int, *, replacement: bool = False) -> Array:
        """Return `count` classes drawn by weight, for each row of weights."""
        _check_weights(weights, count, replacement=replacement)
        rows = weights.reshape(-1, weights.shape[-1])
        if replacement and count > 1:
            with self._lock:
                unit = self._unit(len(rows) * count, random.FLOAT64)
            drawn = random.draw_with_replacement(rows, unit.reshape(len(rows), count))
        else:
            waits = self.exponential(rows.shape, rows.dtype)
            drawn = random.draw_without_replacement(rows, waits, count)
        return drawn.reshape(*weights.shape[:-1], count)


def _start(twister: Any, seed: int) -> None:
    """Start the sequence of a seed. MT19937's own seeding differs from PyTorch's."""
    np.random.RandomState(twister).seed(seed % (1 << 32))


def _check_float(dtype: np.dtype[Any], kernel: str) -> None:
    if dtype not in _FLOATS:
        name = from_numpy(dtype).scalar_name
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{name}'")


def _check_bounds(low: float, high: float, dtype: np.dtype[Any]) -> None:
    for end, bound in (("from", low), ("to", high)):
        if not abs(bound) <= _LARGEST[dtype]:
            raise RuntimeError(f"{end} is out of bounds for {c_name(np.empty(0, dtype))}")
    if low > high:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}"
        )
    if high - low > _LARGEST[dtype]:
        name = from_numpy(dtype).scalar_name
        raise RuntimeError(
            f"uniform_ expects to-from <= std::numeric_limits<{name}>::max(), but found "
            f"to={high:g} and from={low:g} which result in to-from to exceed the limit"
        )


def _check_weights(weights: Array, count: int, *, replacement: bool) -> None:
    if weights.ndim not in (1, 2) or weights.size == 0:
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if weights.dtype not in _FLOATS:
        name = scalar_name(weights)
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: {name}"
        )
    if count <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and count > weights.shape[-1]:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
        )
    if not np.all(np.isfinite(weights) & (weights >= 0)):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if not np.all(np.add.reduce(weights, axis=-1, dtype=np.float64) > 0):
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
