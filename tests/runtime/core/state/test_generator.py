"""The same seed and the same calls give PyTorch's numbers, bit for bit."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

from gradscope.runtime.core.kernels.random import random
from gradscope.runtime.core.kernels.support import LARGE, fast
from gradscope.runtime.core.state.generator import Generator
from gradscope.runtime.core.tensors import default_generator
from tests.shared.searching import searching

FLOATS = ["float32", "float64", "float16", "bfloat16"]
SIZES = [0, 1, 7, 15, 16, 17, 31, 32, 1000]
BOUNDS = [(0.0, 1.0), (-0.3, 1.9), (-1 / 3, 1 / 7), (2.0, 5.0)]
MOMENTS = [(0.0, 1.0), (0.3, 1.7), (-2.0, 0.0)]


def numpy_dtype(name: str) -> Any:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def values(tensor: Any) -> Any:
    """A tensor's values; bfloat16 ones widened, since NumPy does not know them."""
    torch = pytest.importorskip("torch")
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def same(ours: Any, theirs: Any) -> None:
    theirs = values(theirs)
    if ours.dtype == ml_dtypes.bfloat16:
        ours = ours.astype(np.float32)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    np.testing.assert_array_equal(ours, theirs)


class Twins:
    """A generator and PyTorch's, of one seed."""

    def __init__(self, seed: int) -> None:
        import torch

        self.torch = torch
        self.ours = Generator().manual_seed(seed)
        self.theirs = torch.Generator().manual_seed(seed)

    def empty(self, shape: Any, dtype: str) -> Any:
        return self.torch.empty(shape, dtype=getattr(self.torch, dtype))

    def uniform(self, shape: Any, dtype: str, low: float = 0.0, high: float = 1.0) -> None:
        same(
            self.ours.uniform(shape, numpy_dtype(dtype), low, high),
            self.empty(shape, dtype).uniform_(low, high, generator=self.theirs),
        )

    def normal(self, shape: Any, dtype: str, mean: float = 0.0, std: float = 1.0) -> None:
        same(
            self.ours.normal(shape, numpy_dtype(dtype), mean, std),
            self.empty(shape, dtype).normal_(mean, std, generator=self.theirs),
        )

    def integers(self, low: int, high: int, shape: Any, dtype: str = "int64") -> None:
        theirs = getattr(self.torch, dtype)
        same(
            self.ours.integers(low, high, shape, numpy_dtype(dtype)),
            self.torch.randint(low, high, shape, dtype=theirs, generator=self.theirs),
        )

    def permutation(self, count: int) -> None:
        same(self.ours.permutation(count), self.torch.randperm(count, generator=self.theirs))

    def bernoulli(self, p: float, shape: Any) -> None:
        theirs = self.empty(shape, "bool").bernoulli_(p, generator=self.theirs)
        same(self.ours.bernoulli(p, shape), theirs)

    def exponential(self, shape: Any, dtype: str, rate: float = 1.0) -> None:
        same(
            self.ours.exponential(shape, numpy_dtype(dtype), rate),
            self.empty(shape, dtype).exponential_(rate, generator=self.theirs),
        )

    def multinomial(self, weights: Any, count: int, *, replacement: bool) -> None:
        theirs = self.torch.multinomial(weights, count, replacement, generator=self.theirs)
        array = values(weights).astype(numpy_dtype(str(weights.dtype)[6:]))
        same(self.ours.multinomial(array, count, replacement=replacement), theirs)

    def agree_on_state(self) -> None:
        np.testing.assert_array_equal(self.ours.get_state(), self.theirs.get_state().numpy())


@pytest.mark.torch
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", SIZES)
def test_uniform_and_normal_numbers_are_pytorchs(size: int, dtype: str) -> None:
    twins = Twins(size)
    for low, high in BOUNDS:
        twins.uniform((size,), dtype, low, high)
    for mean, std in MOMENTS:
        twins.normal((size,), dtype, mean, std)
    twins.agree_on_state()


@pytest.mark.torch
@pytest.mark.parametrize("dtype", FLOATS)
def test_many_numbers_are_pytorchs_too(dtype: str) -> None:
    """Large enough for Numba, and for what comes up once in thousands: a half that rounds up."""
    twins = Twins(1)
    twins.uniform((LARGE + 5,), dtype)
    twins.uniform((LARGE + 5,), dtype, -0.1, 0.3)
    twins.normal((LARGE + 5,), dtype)
    twins.normal((LARGE - 5,), dtype, 0.1, 0.02)
    twins.exponential((LARGE + 5,), dtype, 2.5)
    twins.agree_on_state()


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers_are_pytorchs(dtype: str) -> None:
    twins = Twins(2)
    kind = getattr(twins.torch, dtype)
    for shape in ((3,), (4, 5)):
        same(
            twins.ours.normal(shape, np.dtype(dtype)),
            twins.torch.randn(shape, dtype=kind, generator=twins.theirs),
        )
        same(
            twins.ours.uniform(shape, np.dtype(dtype)),
            twins.torch.rand(shape, dtype=kind, generator=twins.theirs),
        )


@pytest.mark.torch
def test_a_strided_tensor_gets_its_normal_numbers_two_by_two() -> None:
    twins = Twins(3)
    for dtype in FLOATS:
        theirs = twins.empty((5, 8), dtype).t().normal_(0.3, 1.7, generator=twins.theirs).t()
        ours = twins.ours.normal((5, 8), numpy_dtype(dtype), 0.3, 1.7, contiguous=False)
        same(ours, theirs)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 10), (-5, 100), (0, 2**28 - 1), (0, 2**28), (7, 2**40), (-(2**63), 2**63 - 1)],
)
def test_whole_numbers_are_pytorchs(low: int, high: int) -> None:
    twins = Twins(4)
    twins.integers(low, high, (3, 5))
    twins.agree_on_state()


@pytest.mark.torch
def test_whole_numbers_of_every_dtype_are_pytorchs() -> None:
    twins = Twins(5)
    for dtype in ("bool", "uint8", "int8", "int16", "int32", "int64", *FLOATS):
        if dtype != "bool":
            twins.integers(0, 100, (50,), dtype)
        same(
            twins.ours.full_range((50,), numpy_dtype(dtype)),
            twins.empty((50,), dtype).random_(generator=twins.theirs),
        )


@pytest.mark.torch
@pytest.mark.parametrize("count", [0, 1, 2, 10, 1000, LARGE + 3])
def test_permutations_are_pytorchs(count: int) -> None:
    twins = Twins(6)
    twins.permutation(count)
    twins.agree_on_state()


@pytest.mark.torch
@pytest.mark.parametrize("dtype", FLOATS)
def test_coins_are_pytorchs(dtype: str) -> None:
    twins = Twins(7)
    twins.bernoulli(0.3, (100,))
    p = twins.torch.rand(40, 5, generator=twins.theirs).to(getattr(twins.torch, dtype))
    twins.uniform((0,), "float32")
    twins.ours.set_state(twins.theirs.get_state().numpy())
    theirs = twins.torch.bernoulli(p, generator=twins.theirs).bool()
    same(twins.ours.bernoulli(values(p).astype(numpy_dtype(dtype))), theirs)
    twins.agree_on_state()


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(10,), (4, 1000)])
def test_a_dropout_mask_is_a_coin_for_every_element(shape: Any, dtype: str) -> None:
    import torch

    ours = Generator().manual_seed(8)
    torch.manual_seed(8)
    kept = torch.nn.functional.dropout(torch.ones(shape, dtype=getattr(torch, dtype)), 0.3) != 0
    np.testing.assert_array_equal(ours.bernoulli(1 - 0.3, shape), kept.numpy())


@pytest.mark.torch
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [1, 5, 1000])
def test_waiting_times_are_pytorchs(size: int, dtype: str) -> None:
    twins = Twins(9)
    for rate in (1.0, 2.5, 0.1):
        twins.exponential((size,), dtype, rate)
    twins.agree_on_state()


@pytest.mark.torch
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("replacement", [False, True])
def test_drawn_classes_are_pytorchs(dtype: str, replacement: bool) -> None:
    twins = Twins(10)
    kind = getattr(twins.torch, dtype)
    for shape, count in (((8,), 1), ((8,), 5), ((6, 10), 1), ((6, 10), 7), ((2, 3000), 20)):
        weights = twins.torch.rand(shape, dtype=twins.torch.float64).to(kind)
        weights[..., 1] = 0
        if dtype.endswith("float16") and shape[-1] > 100 and not replacement:
            continue  # halves of so many classes tie, and PyTorch's topk orders ties as it happens
        twins.multinomial(weights, count, replacement=replacement)
    twins.agree_on_state()


@pytest.mark.torch
def test_normal_numbers_around_arrays_are_pytorchs() -> None:
    twins = Twins(11)
    for size in (5, 40):
        mean, std = np.linspace(-1, 1, size), np.linspace(0.1, 2, size)
        theirs = twins.torch.normal(
            twins.torch.tensor(mean), twins.torch.tensor(std), generator=twins.theirs
        )
        same(twins.ours.normal_around(mean, std), theirs)
    with pytest.raises(RuntimeError, match=r"normal expects all elements of std >= 0.0"):
        twins.ours.normal_around(np.zeros(2), np.array([-1.0, 1.0]))


CALLS: list[Callable[[Twins, int], None]] = [
    lambda twins, n: twins.uniform((n,), "float32", -0.3, 0.4),
    lambda twins, n: twins.uniform((n,), "float64"),
    lambda twins, n: twins.normal((n,), "float32", 0.1, 0.5),
    lambda twins, n: twins.normal((n,), "float64"),
    lambda twins, n: twins.normal((n,), "bfloat16"),
    lambda twins, n: twins.integers(0, 7, (n,)),
    lambda twins, n: twins.permutation(n),
    lambda twins, n: twins.bernoulli(0.5, (n,)),
    lambda twins, n: twins.exponential((n,), "float32"),
]


@pytest.mark.torch
@searching(50)
@given(
    st.integers(0, 2**64 - 1),
    st.lists(st.tuples(st.integers(0, len(CALLS) - 1), st.integers(0, 40)), max_size=12),
)
def test_any_sequence_of_calls_leaves_both_in_the_same_state(
    seed: int, calls: list[tuple[int, int]]
) -> None:
    twins = Twins(seed)
    twins.agree_on_state()
    for call, size in calls:
        CALLS[call](twins, size)
        twins.agree_on_state()


@pytest.mark.torch
@pytest.mark.parametrize("draws", [0, 1, 3, 623, 624, 625])
def test_a_state_goes_from_one_library_to_the_other_and_back(draws: int) -> None:
    import torch

    twins = Twins(12)
    twins.uniform((draws,), "float32")
    twins.normal((3,), "float32")
    resumed, theirs = Generator().set_state(twins.theirs.get_state().numpy()), torch.Generator()
    theirs.set_state(torch.from_numpy(twins.ours.get_state()))
    same(resumed.normal((5,), np.float64), torch.empty(5).double().normal_(generator=theirs))
    np.testing.assert_array_equal(resumed.get_state(), theirs.get_state().numpy())
    assert resumed.initial_seed() == 12


@pytest.mark.torch
@pytest.mark.parametrize("seed", [0, -1, -5, 2**32 + 5, 2**63, 2**64 - 1, 2**64, -(2**63) - 1, 1.5])
def test_seeds_are_taken_and_refused_as_by_pytorch(seed: Any) -> None:
    import torch

    def first(generator: Any) -> str:
        try:
            return str(generator.manual_seed(seed).initial_seed())
        except (ValueError, RuntimeError) as error:
            return f"{type(error).__name__}: {error}"

    assert first(Generator()) == first(torch.Generator())


def test_an_unseeded_generator_has_pytorchs_seed_until_it_seeds_itself() -> None:
    generator = Generator()
    assert generator.initial_seed() == 67280421310721
    assert generator.seed() == generator.initial_seed() != 67280421310721


def test_copies_and_pickles_go_on_where_the_original_was() -> None:
    generator = default_generator.Generator().manual_seed(3)
    generator.normal((3,), np.float32)
    copies = [
        generator.clone_state(),
        copy.deepcopy(generator),
        pickle.loads(pickle.dumps(generator)),
    ]
    expected = generator.normal((5,), np.float64)
    for twin in copies:
        np.testing.assert_array_equal(twin.normal((5,), np.float64), expected)


def broken(state: Any, **fields: int) -> Any:
    state = state.copy()
    state[8:12] = np.frombuffer(np.int32(fields["left"]).tobytes(), np.uint8)
    return state


@pytest.mark.parametrize(
    ("state", "error"),
    [
        (lambda s: s[:100], "Expected a CPUGeneratorImplState of size 5056 but found the input"),
        (lambda s: s.astype(np.float32), "RNG state must be a torch.ByteTensor"),
        (lambda s: broken(s, left=0), "Invalid mt19937 state"),
        (lambda s: broken(s, left=700), "Invalid mt19937 state"),
    ],
)
def test_a_state_that_is_none_is_refused_and_changes_nothing(state: Any, error: str) -> None:
    generator = Generator().manual_seed(3)
    before = generator.get_state()
    with pytest.raises((RuntimeError, TypeError), match=error):
        generator.set_state(state(before))
    np.testing.assert_array_equal(generator.get_state(), before)


REFUSED: list[tuple[Callable[[Any], object], Callable[[Any], object]]] = [
    (lambda g: g.uniform((4,), np.float32, 2, 1), lambda t: t.empty(4).uniform_(2, 1)),
    (
        lambda g: g.uniform((4,), np.float32, -3e38, 3e38),
        lambda t: t.empty(4).uniform_(-3e38, 3e38),
    ),
    (lambda g: g.uniform((4,), np.int64), lambda t: t.rand(4, dtype=t.int64)),
    (lambda g: g.normal((4,), np.float32, 0, -1), lambda t: t.empty(4).normal_(0, -1)),
    (lambda g: g.normal((4,), np.int32), lambda t: t.empty(4, dtype=t.int32).normal_()),
    (lambda g: g.integers(3, 3, (4,)), lambda t: t.randint(3, 3, (4,))),
    (lambda g: g.bernoulli(2, (4,)), lambda t: t.empty(4).bernoulli_(2)),
    (lambda g: g.exponential((4,), np.float32, 0), lambda t: t.empty(4).exponential_(0)),
    (lambda g: g.permutation(-1), lambda t: t.randperm(-1)),
    (lambda g: g.multinomial(np.zeros(2), 1), lambda t: t.multinomial(t.zeros(2), 1)),
    (lambda g: g.multinomial(np.ones(2), 3), lambda t: t.multinomial(t.ones(2), 3)),
    (lambda g: g.multinomial(np.ones(2), 0), lambda t: t.multinomial(t.ones(2), 0)),
    (lambda g: g.multinomial(np.ones((1, 1, 1)), 1), lambda t: t.multinomial(t.ones(1, 1, 1), 1)),
    (lambda g: g.multinomial(-np.ones(2), 1), lambda t: t.multinomial(-t.ones(2), 1)),
    (lambda g: g.multinomial(np.ones(2, int), 1), lambda t: t.multinomial(t.ones(2).long(), 1)),
]


@pytest.mark.torch
@pytest.mark.parametrize(("ours", "theirs"), REFUSED)
def test_what_pytorch_refuses_is_refused_in_its_words(
    ours: Callable[[Any], object], theirs: Callable[[Any], object]
) -> None:
    import torch

    with pytest.raises((RuntimeError, NotImplementedError)) as expected:
        theirs(torch)
    with pytest.raises(expected.type) as error:
        ours(Generator())
    assert str(error.value) == str(expected.value).splitlines()[0]


def test_fused_multiply_add_rounds_once() -> None:
    rng = np.random.default_rng(0)
    a, b, c = rng.normal(size=3000), float(rng.normal()), float(rng.normal())
    exact = [float(Fraction(x) * Fraction(b) + Fraction(c)) for x in a.tolist()]
    np.testing.assert_array_equal(random.fused64(a, b, c), exact)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numba_makes_the_same_normal_numbers_as_numpy(dtype: Any) -> None:
    unit = Generator().manual_seed(0).uniform((LARGE,), dtype)
    np.testing.assert_array_equal(fast().normal_blocks(unit), random.plain_normal_blocks(unit))
