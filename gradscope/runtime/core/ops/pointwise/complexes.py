"""Complex numbers: complex, polar, angle, conj_physical."""

from __future__ import annotations

import math

import numpy as np

from gradscope.runtime.core.calls.declare import (
    BY_HAND,
    FLOATS,
    FUNCTION_ONLY,
    LINEAR,
    TENSORS_ONLY,
    family,
    inplace,
    joint,
    jvp,
    op,
    w,
)
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.dtypes.names import scalar_name
from gradscope.runtime.core.ops.in_formulas import ZERO, beside, is_complex, on_arrays, zeros_like
from gradscope.runtime.core.rows.offered import both
from gradscope.runtime.core.rows.traits import AS_OPERANDS


def _check_parts(first, second):
    names = [scalar_name(a) for a in (first, second)]
    if first.dtype.char not in "fde" or second.dtype.char not in "fde":
        raise RuntimeError(
            "Expected both inputs to be Half, Float or Double tensors but got "
            f"{names[0]} and {names[1]}"
        )
    if first.dtype != second.dtype:
        raise RuntimeError(
            f"Expected object of scalar type {names[0]} but got scalar type {names[1]} for second "
            "argument"
        )


def _complex(real, imag):
    _check_parts(real, imag)
    kind = dtypes.from_numpy(real.dtype).to_complex().numpy
    made = np.empty(np.broadcast_shapes(real.shape, imag.shape), kind)
    made.real, made.imag = real, imag
    return made


def _polar(abs, angle):
    _check_parts(abs, angle)
    return _complex(abs * np.cos(angle), abs * np.sin(angle))


def _imaginary(value):
    return value.imag if is_complex(value) else zeros_like(value)


def _parts_tangent(real_t, imag_t, real, imag):
    real_t = zeros_like(real) if real_t is None else real_t
    imag_t = zeros_like(imag) if imag_t is None else imag_t
    return w.complex(real_t, imag_t)


def _polar_slopes(grad, result, needs):
    mirrored = grad.conj()
    return (
        (mirrored * w.sgn(result)).real if needs[0] else None,
        (mirrored * (result * beside(result, 1j))).real if needs[1] else None,
    )


def _polar_tangent(abs_t, angle_t, abs, angle):
    abs_t = zeros_like(abs) if abs_t is None else abs_t
    angle_t = zeros_like(angle) if angle_t is None else angle_t
    cos, sin = w.cos(angle), w.sin(angle)
    turn = abs * angle_t
    return w.complex(abs_t * cos - turn * sin, abs_t * sin + turn * cos)


def _angle(self):
    if self.dtype.kind == "c":
        return np.angle(self)
    return np.where(np.isnan(self), self, np.where(self < 0, math.pi, 0)).astype(self.dtype)


def _angle_slope(grad, self):
    if not is_complex(self):
        return zeros_like(grad)
    slope = grad * self / w.abs(self) ** 2 * 1j
    if on_arrays(slope):
        return np.where(self == 0, ZERO[slope.dtype], slope)
    return w.where(self == 0, zeros_like(slope.detach()), slope)


def _angle_tangent(self_t, self):
    return (self_t / self).imag if self.is_complex() else zeros_like(self_t)


complex = op(
    "ComplexBackward0",
    _complex,
    BY_HAND,
    FUNCTION_ONLY,
    TENSORS_ONLY,
    jvp(_parts_tangent),
    AS_OPERANDS,
    real=lambda grad, real: grad.real,
    imag=lambda grad, imag: _imaginary(grad),
)
polar = op(
    "PolarBackward0",
    _polar,
    BY_HAND,
    FUNCTION_ONLY,
    TENSORS_ONLY,
    jvp(_polar_tangent),
    joint("abs", "angle", by=_polar_slopes),
    AS_OPERANDS,
)
angle = op("AngleBackward0", _angle, FLOATS, BY_HAND, jvp(_angle_tangent), self=_angle_slope)


def _conjugate(self):
    return np.conj(self) if self.dtype.kind == "c" else self


conj_physical__default = op(
    "ConjPhysicalBackward0",
    np.conj,
    LINEAR,
    BY_HAND,
    self=lambda grad: w.conj_physical(grad) if is_complex(grad) else grad,
)
conj_physical_ = inplace(
    op(
        "ConjPhysicalBackward1",
        _conjugate,
        LINEAR,
        BY_HAND,
        self=lambda grad: w.conj_physical(grad),
    )
)
family(globals())


@both
def conj_physical(input):
    """The conjugate in new memory; a real tensor is returned itself."""
    return conj_physical__default(input) if is_complex(input) else input


@both
def _conj_physical(input):
    return conj_physical__default(input)
