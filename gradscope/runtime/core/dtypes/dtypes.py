"""Dtypes of tensors, and type promotion.

The objects are PyTorch's (`torch.float32` by name and by `repr`). Each has its NumPy dtype.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@final
class dtype:  # noqa: N801 -- PyTorch's name
    """A dtype. There is one object per dtype, so they can be compared by `is`."""

    __slots__ = (
        "abbr",
        "is_complex",
        "is_floating_point",
        "is_signed",
        "itemsize",
        "name",
        "numpy",
        "scalar_name",
    )

    def __init__(self, name: str, scalar_name: str, abbr: str, numpy: type[Any]) -> None:
        self.name: Final = name
        self.scalar_name: Final = scalar_name  # PyTorch's name in errors: "Float"
        self.abbr: Final = abbr
        self.numpy: Final[np.dtype[Any]] = np.dtype(numpy)
        self.is_complex: Final = name.startswith("complex")
        self.is_floating_point: Final = "float" in name
        self.is_signed: Final = not name.startswith(("bool", "uint"))
        self.itemsize: Final = 4 if name == "complex32" else self.numpy.itemsize

    def to_real(self) -> dtype:
        """Return the dtype of a complex number's parts; other dtypes return themselves."""
        return _REAL.get(self, self)

    def to_complex(self) -> dtype:
        """Return the complex dtype whose parts have this dtype's values."""
        if self not in _COMPLEX:
            raise RuntimeError(f"Unknown Complex ScalarType for {self.scalar_name}")
        return _COMPLEX[self]

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> tuple[Callable[[str], dtype], tuple[str]]:
        return named, (self.name,)  # copies and unpickled ones are the same object


bool_ = dtype("bool", "Bool", "b8", np.bool_)
uint8 = dtype("uint8", "Byte", "u8", np.uint8)
uint16 = dtype("uint16", "UInt16", "u16", np.uint16)
uint32 = dtype("uint32", "UInt32", "u32", np.uint32)
uint64 = dtype("uint64", "UInt64", "u64", np.uint64)
int8 = dtype("int8", "Char", "i8", np.int8)
int16 = dtype("int16", "Short", "i16", np.int16)
int32 = dtype("int32", "Int", "i32", np.int32)
int64 = dtype("int64", "Long", "i64", np.int64)
float16 = dtype("float16", "Half", "f16", np.float16)
bfloat16 = dtype("bfloat16", "BFloat16", "bf16", ml_dtypes.bfloat16)
float32 = dtype("float32", "Float", "f32", np.float32)
float64 = dtype("float64", "Double", "f64", np.float64)
# NumPy has no half-precision complex: complex32 takes part in promotion, its values are complex64.
complex32 = dtype("complex32", "ComplexHalf", "c32", np.complex64)
complex64 = dtype("complex64", "ComplexFloat", "c64", np.complex64)
complex128 = dtype("complex128", "ComplexDouble", "c128", np.complex128)

INTEGRAL: Final = (uint8, uint16, uint32, uint64, int8, int16, int32, int64)
FLOATING: Final = (float16, bfloat16, float32, float64)
COMPLEX: Final = (complex32, complex64, complex128)
ALL: Final = (bool_, *INTEGRAL, *FLOATING, *COMPLEX)

# Every name of a dtype in the `torch` namespace.
NAMES: Final[Mapping[str, dtype]] = {
    **{kind.name: kind for kind in ALL},
    "short": int16,
    "int": int32,
    "long": int64,
    "half": float16,
    "float": float32,
    "double": float64,
    "chalf": complex32,
    "cfloat": complex64,
    "cdouble": complex128,
}

_REAL: Final = {complex32: float16, complex64: float32, complex128: float64}
_COMPLEX: Final = {
    float16: complex32,
    bfloat16: complex64,
    float32: complex64,
    float64: complex128,
    **{kind: kind for kind in COMPLEX},
}
_FROM_NUMPY: Final = {kind.numpy: kind for kind in ALL if kind is not complex32}
_NUMPY_NAMES: Final = (
    "float64, float32, float16, complex64, complex128, int64, int32, int16, int8, "
    "uint64, uint32, uint16, uint8, and bool"
)


def named(name: str) -> dtype:
    """Return the dtype called `name` in the `torch` namespace: "float32", "long"."""
    return NAMES[name]


def from_numpy(numpy: np.dtype[Any]) -> dtype:
    """Return the dtype whose values NumPy stores as `numpy`."""
    kind = _FROM_NUMPY.get(numpy)
    if kind is not None:
        return kind
    if not numpy.isnative:
        raise TypeError(
            "given numpy array has byte order different from the native byte order. "
            "Conversion between byte orders is currently not supported."
        )
    raise TypeError(
        f"can't convert np.ndarray of type {numpy.type.__module__}.{numpy.type.__name__}. "
        f"The only supported types are: {_NUMPY_NAMES}."
    )


_FLOATING_ONLY: Final = "only floating-point types are supported as the default type"


class _Default:
    """The default dtype of Python floats, and hence of Python complex numbers."""

    def __init__(self) -> None:
        self.real = float32


_default: Final = _Default()


def get_default_dtype() -> dtype:
    """Return the dtype of Python floats."""
    return _default.real


def default_complex_dtype() -> dtype:
    """Return the dtype of Python complex numbers."""
    if _default.real is bfloat16:
        raise RuntimeError("invalid default scalar type for complex")
    return _COMPLEX[_default.real]


def set_default_dtype(kind: object) -> None:
    """Set the dtype of Python floats."""
    if not isinstance(kind, dtype):
        raise TypeError(f"invalid dtype object: {_FLOATING_ONLY}")
    if not kind.is_floating_point:
        raise TypeError(_FLOATING_ONLY)
    _default.real = kind
    _results.clear()


def number_dtype(number: complex) -> dtype:
    """Return the dtype of a Python number by itself."""
    if isinstance(number, bool | np.bool_):
        return bool_
    if isinstance(number, int | np.integer):
        return int64
    if isinstance(number, float | np.floating):
        return _default.real
    return default_complex_dtype()


def can_cast(source: dtype, target: dtype) -> bool:
    """Tell whether `source` can be cast to `target` in place: never to a lower category."""
    return _rank(source) <= _rank(target)


def _rank(kind: dtype) -> int:
    if kind is bool_:
        return 0
    return 3 if kind.is_complex else 2 if kind.is_floating_point else 1


def _promoted(first: dtype, second: dtype) -> dtype | None:
    """Return the smallest dtype above both, or None if PyTorch has none."""
    low, high = sorted((first, second), key=_rank)
    if low is high or low is bool_:
        return None if first is not second and high in _BAREBONES else high
    if high.is_complex or high.is_floating_point:
        return _promoted_inexact(low, high)
    if low in _BAREBONES or high in _BAREBONES:
        return None
    if uint8 in (low, high):
        other = high if low is uint8 else low
        return int16 if other is int8 else other
    return max(low, high, key=_itemsize)


def _promoted_inexact(low: dtype, high: dtype) -> dtype | None:
    if _rank(low) == 1:
        return None if high.is_complex and low in _BAREBONES else high
    parts = low.to_real(), high.to_real()
    part = float32 if set(parts) == {float16, bfloat16} else max(parts, key=_itemsize)
    return part.to_complex() if high.is_complex else part


def _itemsize(kind: dtype) -> int:
    return kind.itemsize


# PyTorch stores these and promotes them to floats only.
_BAREBONES: Final = (uint16, uint32, uint64)
_PROMOTED: Final = {(first, second): _promoted(first, second) for first in ALL for second in ALL}


def promote_types(first: dtype, second: dtype) -> dtype:
    """Return the smallest dtype that holds the values of both."""
    kind = _PROMOTED[first, second]
    if kind is None:
        raise RuntimeError(
            "Promotion for uint16, uint32, uint64 types is not supported, "
            f"attempted to promote {first.scalar_name} and {second.scalar_name}"
        )
    return kind


# The category of an operand decides the weight of its dtype, see `result_type`.
DIMENSIONED: Final = 0  # a tensor with one dimension or more
ZERO_DIM: Final = 1  # a tensor without dimensions
NUMBER: Final = 2  # a Python number

_results: Final[dict[tuple[tuple[dtype, int], ...], dtype]] = {}


def result_type(*operands: tuple[dtype, int]) -> dtype:
    """Return the dtype in which an operation on (dtype, category) operands computes.

    A tensor with dims has priority over one without, which has priority over a Python number. The
    lower one changes the dtype only if it is of a higher kind (integral, floating, complex).
    """
    kind = _results.get(operands)
    if kind is None:
        kind = _results[operands] = _result_type(operands)
    return kind


def _result_type(operands: tuple[tuple[dtype, int], ...]) -> dtype:
    weights: list[dtype | None] = [None, None, None]
    for kind, category in operands:
        given = _number_kind(kind) if category == NUMBER else kind
        so_far = weights[category]
        weights[category] = given if so_far is None else promote_types(so_far, given)
    dimensioned, zero_dim, number = weights
    result = _outweigh(dimensioned, _outweigh(zero_dim, number))
    if result is None:
        raise TypeError("result_type needs at least one operand; give it a (dtype, category) pair")
    return result


def _number_kind(kind: dtype) -> dtype:
    if kind.is_complex:
        return _default.real.to_complex()
    return _default.real if kind.is_floating_point else kind


def _outweigh(upper: dtype | None, lower: dtype | None) -> dtype | None:
    if upper is None or lower is None:
        return lower if upper is None else upper
    if upper.is_complex:
        return upper
    if upper.is_floating_point:
        return upper.to_complex() if lower.is_complex else upper
    if upper is bool_:
        return promote_types(upper, lower)
    return lower if _rank(lower) > _rank(upper) else upper
