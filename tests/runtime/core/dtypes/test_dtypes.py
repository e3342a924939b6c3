"""dtypes, their promotion and their limits are PyTorch's."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest

from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.dtypes.dtypes import DIMENSIONED, NUMBER, ZERO_DIM, dtype
from gradscope.runtime.core.dtypes.limits import finfo, iinfo

KINDS = sorted(dtypes.ALL, key=str)
PAIRS = list(product(KINDS, KINDS))


def outcome(call: Callable[[], object]) -> str:
    """What a call returned, or the first line of what it raised."""
    try:
        return str(call())
    except (RuntimeError, TypeError) as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_dtype_is_one_object_however_it_is_copied(kind: dtype) -> None:
    assert pickle.loads(pickle.dumps(kind)) is kind
    assert copy.deepcopy(kind) is kind
    assert dtypes.named(kind.name) is kind


@pytest.mark.parametrize("kind", [k for k in KINDS if k is not dtypes.complex32], ids=str)
def test_a_numpy_dtype_goes_there_and_back(kind: dtype) -> None:
    assert dtypes.from_numpy(np.zeros(2, kind.numpy).dtype) is kind


def test_foreign_numpy_dtypes_are_refused_in_pytorchs_words() -> None:
    with pytest.raises(TypeError, match=r"can't convert np.ndarray of type numpy.str_. The only"):
        dtypes.from_numpy(np.dtype("U3"))
    with pytest.raises(TypeError, match="byte order different from the native byte order"):
        dtypes.from_numpy(np.dtype(">i4"))


def test_python_numbers_become_the_default_dtypes() -> None:
    dtypes.set_default_dtype(dtypes.float64)
    try:
        kinds = [dtypes.number_dtype(number) for number in (True, 1, 1.0, 1j)]
    finally:
        dtypes.set_default_dtype(dtypes.float32)
    assert kinds == [dtypes.bool_, dtypes.int64, dtypes.float64, dtypes.complex128]


@pytest.mark.torch
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_dtype_says_of_itself_what_pytorchs_says(kind: dtype) -> None:
    import torch

    theirs = getattr(torch, kind.name)
    facts = ("is_complex", "is_floating_point", "is_signed", "itemsize", "abbr")
    assert [getattr(kind, fact) for fact in facts] == [getattr(theirs, fact) for fact in facts]
    assert repr(kind) == repr(theirs)
    assert str(kind.to_real()) == str(theirs.to_real())
    assert outcome(kind.to_complex) == outcome(theirs.to_complex)


@pytest.mark.torch
def test_every_alias_names_pytorchs_dtype() -> None:
    import torch

    theirs = {
        name: str(kind) for name, kind in vars(torch).items() if isinstance(kind, torch.dtype)
    }
    ours = {name: str(kind) for name, kind in dtypes.NAMES.items()}
    assert ours == {name: theirs[name] for name in ours}
    assert {name for name, kind in theirs.items() if kind in ours.values()} == set(ours)


@pytest.mark.torch
@pytest.mark.parametrize(("first", "second"), PAIRS, ids=str)
def test_two_dtypes_promote_and_cast_as_in_pytorch(first: dtype, second: dtype) -> None:
    import torch

    theirs = getattr(torch, first.name), getattr(torch, second.name)
    assert outcome(lambda: dtypes.promote_types(first, second)) == (
        outcome(lambda: torch.promote_types(*theirs))
    )
    assert dtypes.can_cast(first, second) == torch.can_cast(*theirs)


NUMBERS = {"bool": True, "int64": 3, "float32": 2.5, "complex64": 1j}


def operands(torch: Any) -> list[tuple[tuple[dtype, int], Any]]:
    """Every kind of operand: ours as (dtype, category), and PyTorch's."""
    tensors = [
        ((kind, category), torch.empty(shape, dtype=getattr(torch, kind.name)))
        for kind in KINDS
        for category, shape in ((DIMENSIONED, (2,)), (ZERO_DIM, ()))
    ]
    return tensors + [((dtypes.named(n), NUMBER), value) for n, value in NUMBERS.items()]


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("default", ["float32", "float64", "float16", "bfloat16"])
def test_operands_of_every_category_make_pytorchs_result_type(default: str) -> None:
    import torch

    torch.set_default_dtype(getattr(torch, default))
    try:
        dtypes.set_default_dtype(dtypes.named(default))
        for (mine, theirs), (my_other, their_other) in product(operands(torch), repeat=2):
            ours = outcome(lambda a=mine, b=my_other: dtypes.result_type(a, b))
            assert ours == outcome(lambda a=theirs, b=their_other: torch.result_type(a, b)), (
                mine,
                my_other,
            )
    finally:
        dtypes.set_default_dtype(dtypes.float32)
        torch.set_default_dtype(torch.float32)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_three_operands_make_the_dtype_of_pytorchs_concatenation() -> None:
    import torch

    kinds = [k for k in KINDS if not k.name.startswith("uint") or k is dtypes.uint8]
    for three in combinations_with_replacement(kinds, 3):
        ours = dtypes.result_type(*((kind, DIMENSIONED) for kind in three))
        theirs = torch.cat([torch.zeros(1, dtype=getattr(torch, kind.name)) for kind in three])
        assert str(ours) == str(theirs.dtype), three


@pytest.mark.torch
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_limits_print_and_compare_as_pytorchs(kind: dtype) -> None:
    import torch

    theirs = getattr(torch, kind.name)
    assert outcome(lambda: finfo(kind)) == outcome(lambda: torch.finfo(theirs))
    assert outcome(lambda: iinfo(kind)) == outcome(lambda: torch.iinfo(theirs))
    if kind.is_floating_point:
        assert {name: getattr(finfo(kind), name) for name in finfo.__slots__} == (
            {name: getattr(torch.finfo(theirs), name) for name in finfo.__slots__}
        )
    elif kind in dtypes.INTEGRAL:
        assert {name: getattr(iinfo(kind), name) for name in iinfo.__slots__} == (
            {name: getattr(torch.iinfo(theirs), name) for name in iinfo.__slots__}
        )


def test_the_limits_without_a_dtype_are_the_defaults() -> None:
    assert finfo() == finfo(dtypes.float32)
    assert iinfo(dtypes.int8) != iinfo(dtypes.int16)
