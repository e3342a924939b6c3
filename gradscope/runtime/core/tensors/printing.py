"""PyTorch's `repr` of tensors, character for character.

A formatter chooses one width and one notation for all values that are shown. Then vectors are
broken into lines, matrices into rows, and long ones shortened to their edges.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple

import numpy as np

from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.kernels.support import Array


class PrintOptions(NamedTuple):
    """Options of printing: precision and number of elements."""

    precision: int = 4
    threshold: float = 1000  # more elements are summarized by their edges
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None  # None: by the magnitudes


PROFILES: Final = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=float("inf")),
}


class _Current:
    """The present options."""

    def __init__(self) -> None:
        self.options = PROFILES["default"]


_current: Final = _Current()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: Literal["default", "short", "full"] | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set options of printing. Options not given stay unchanged, except `sci_mode`."""
    options = _current.options if profile is None else PROFILES[profile]
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    _current.options = options._replace(**changes, sci_mode=sci_mode)


def format_tensor(
    array: Array,
    *,
    dtype: dtypes.dtype,
    requires_grad: bool = False,
    grad_fn_name: str | None = None,
    device: str = "cpu",
    tangent: str | None = None,
    class_name: str = "tensor",
) -> str:
    """Return the `repr` of a tensor. On the meta device the array only gives the shape."""
    options = _current.options
    hidden = device.startswith("meta")
    empty = array.size == 0 and not hidden
    prefix = f"{class_name}("
    text = "..." if hidden else _contents(array, options, len(prefix))
    suffixes = []
    if not device.startswith("cpu"):
        suffixes.append(f"device='{device}'")
    if (array.ndim != 1) if empty else (hidden or not options.edgeitems):
        suffixes.append(f"size={tuple(array.shape)}")
    if not _is_implied(dtype, empty=empty):
        suffixes.append(f"dtype={dtype}")
    if grad_fn_name is not None:
        suffixes.append(f"grad_fn=<{grad_fn_name}>")
    elif requires_grad:
        suffixes.append("requires_grad=True")
    if tangent is not None:
        suffixes.append(f"tangent={tangent}")
    return _joined(f"{prefix}{text}", suffixes, options.linewidth, len(prefix))


def _is_implied(dtype: dtypes.dtype, *, empty: bool) -> bool:
    """Tell whether the dtype is implied by the values."""
    default = dtypes.get_default_dtype()
    if empty or dtype is default:
        return dtype is default
    complex = dtypes.complex128 if default is dtypes.float64 else dtypes.complex64
    return dtype in {dtypes.int64, dtypes.bool_, complex}


def _joined(text: str, suffixes: list[str], linewidth: int, width: int) -> str:
    """Append the suffixes, each on a new line if the present one is full."""
    indent = " " * width
    used = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if used + len(suffix) + 2 > linewidth:
            text += f",\n{indent}{suffix}"
            used = len(indent) + len(suffix)
        else:
            text += f", {suffix}"
            used += len(suffix) + 2
    return text + ")"


def _contents(array: Array, options: PrintOptions, indent: int) -> str:
    if array.size == 0:
        return "[]"
    shortened = array.size > options.threshold
    if shortened and not options.edgeitems and array.ndim:
        return "[...]"
    if array.dtype.kind not in "biuc":
        array = array.astype(np.float64)
    shown = _edges(array, options.edgeitems) if shortened else array
    formatter = _formatter(shown, options)
    return _Layout(formatter, options, shortened=shortened).block(array, indent)


def _edges(array: Array, edgeitems: int) -> Array:
    """Return the values that a summarized print shows."""
    for axis, size in enumerate(array.shape):
        if size > 2 * edgeitems:
            kept = [*range(edgeitems), *range(size - edgeitems, size)]
            array = array.take(kept, axis=axis)
    return array


class Formatter(NamedTuple):
    """Formats integers and booleans with one width."""

    width: int

    def text(self, value: Any) -> str:
        return str(value).rjust(self.width)


class FloatFormatter(NamedTuple):
    """Formats floats with one width and notation."""

    width: int
    precision: int
    scientific: bool
    whole: bool  # all values are integers: print "2." for 2.0

    def text(self, value: Any) -> str:
        return self.bare(value).rjust(self.width)

    def bare(self, value: float) -> str:
        if self.scientific:
            return f"{value:.{self.precision}e}"
        if self.whole:
            return f"{value:.0f}." if np.isfinite(value) else f"{value:.0f}"
        return f"{value:.{self.precision}f}"


class ComplexFormatter(NamedTuple):
    """Formats complex numbers; each part has a notation."""

    width: int
    real: FloatFormatter
    imaginary: FloatFormatter

    def text(self, value: Any) -> str:
        imaginary = self.imaginary.text(value.imag).lstrip()
        sign = "" if imaginary[0] in "+-" else "+"
        return f"{self.real.text(value.real)}{sign}{imaginary}j"


def _formatter(
    shown: Array, options: PrintOptions
) -> Formatter | FloatFormatter | ComplexFormatter:
    if shown.dtype.kind == "f":
        return _float_formatter(shown, options)
    if shown.dtype.kind == "c":
        real = _float_formatter(shown.real, options)
        imaginary = _float_formatter(shown.imag, options)
        return ComplexFormatter(real.width + imaginary.width + 1, real, imaginary)
    return Formatter(max(len(str(value)) for value in shown.reshape(-1).tolist()))


def _float_formatter(shown: Array, options: PrintOptions) -> FloatFormatter:
    """Choose the notation by the finite values other than zero."""
    values = shown.astype(np.float64).reshape(-1)
    values = values[np.isfinite(values) & (values != 0)]
    if values.size == 0:
        return FloatFormatter(1, options.precision, scientific=False, whole=True)
    magnitudes = np.abs(values)
    low, high = float(magnitudes.min()), float(magnitudes.max())
    whole = bool(np.all(values == np.ceil(values)))
    with np.errstate(over="ignore"):
        scientific = high / low > 1000.0 or high > 1.0e8 or (not whole and low < 1.0e-4)
    if options.sci_mode is not None:
        scientific = options.sci_mode
    bare = FloatFormatter(0, options.precision, scientific, whole)
    return bare._replace(width=max(1, *(len(bare.bare(value)) for value in values.tolist())))


class _Layout(NamedTuple):
    """Breaks the values into lines and rows."""

    formatter: Formatter | FloatFormatter | ComplexFormatter
    options: PrintOptions
    shortened: bool

    def block(self, array: Array, indent: int) -> str:
        if array.ndim == 0:
            return self.formatter.text(array.item())
        if array.ndim == 1:
            return self._vector(array, indent)
        rows = [self.block(row, indent + 1) for row in self._ends(array)]
        if self._is_cut(array):
            rows.insert(self.options.edgeitems, "...")
        separator = "," + "\n" * (array.ndim - 1) + " " * (indent + 1)
        return f"[{separator.join(rows)}]"

    def _vector(self, array: Array, indent: int) -> str:
        items = [self.formatter.text(value.item()) for value in self._ends(array)]
        if self._is_cut(array):
            items.insert(self.options.edgeitems, " ...")
        per_line = max(1, (self.options.linewidth - indent) // (self.formatter.width + 2))
        lines = [", ".join(items[i : i + per_line]) for i in range(0, len(items), per_line)]
        separator = ",\n" + " " * (indent + 1)
        return f"[{separator.join(lines)}]"

    def _is_cut(self, array: Array) -> bool:
        return self.shortened and len(array) > 2 * self.options.edgeitems

    def _ends(self, array: Array) -> list[Array]:
        """Return the parts along the first dim that are shown."""
        if not self._is_cut(array):
            return [np.asarray(part) for part in array]
        edge = self.options.edgeitems
        return [np.asarray(part) for part in (*array[:edge], *array[-edge:])]


def name_of_node(tensor: Any) -> str | None:
    """The name that is shown as grad_fn; None for a leaf."""
    try:
        node = tensor.grad_fn
    except RuntimeError:  # a view recorded nowhere, whose base was modified since
        return "Invalid"
    return None if node is None else type(node).__name__
