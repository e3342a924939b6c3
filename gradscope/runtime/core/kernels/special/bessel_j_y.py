"""Bessel functions of the first and second kind, J and Y of order 0 and 1, as in PyTorch.

Up to 5 they are a quotient of two polynomials, from there on a cosine and a sine with such
quotients as factors: the Cephes library's (S. L. Moshier, *Methods and Programs for Mathematical
Functions*, 1989).

# Note [The highest power is left out]
In Cephes, a denominator whose highest power has no coefficient begins with that power: the
coefficient is 1. PyTorch has these polynomials without that power. They are much larger than it, so
the error shows only from the sixth digit on, most between 5 and 10. This runtime has the same
error, since programs that compare the two expect the same values.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from gradscope.runtime.core.kernels.support import Array, elementwise, horner

Fraction = tuple[tuple[float, ...], tuple[float, ...]]
"""Two polynomials, coefficients from the highest power down."""

NEAR: Final = 5.0
"""Up to here it is one quotient."""

_COSINE_0: Final = (
    (
        0.0007969367292973471, 0.08283523921074408, 1.239533716464143, 5.447250030587687,
        8.74716500199817, 5.303240382353949, 1.0,
    ),
    (
        0.0009244088105588637, 0.08562884743544745, 1.2535274390105895, 5.470977403304171,
        8.761908832370695, 5.306052882353947, 1.0,
    ),
)  # fmt: skip
_SINE_0: Final = (
    (
        -0.011366383889846916, -1.2825271867050931, -19.553954425773597, -93.20601521237683,
        -177.68116798048806, -147.07750515495118, -51.41053267665993, -6.050143506007285,
    ),
    (
        64.3178256118178, 856.4300259769806, 3882.4018360540163, 7240.467741956525,
        5930.727011873169, 2062.0933166032783, 242.0057402402914,
    ),
)  # fmt: skip
_COSINE_1: Final = (
    (
        0.0007621256162081731, 0.07313970569409176, 1.1271960812968493, 5.112079511468076,
        8.424045901417724, 5.214515986823615, 1.0,
    ),
    (
        0.0005713231280725487, 0.06884559087544954, 1.105142326340617, 5.073863861286015,
        8.399855543276042, 5.209828486823619, 1.0,
    ),
)  # fmt: skip
_SINE_1: Final = (
    (
        0.05108625947501766, 4.982138729512334, 75.82382841325453, 366.7796093601508,
        710.8563049989261, 597.4896124006136, 211.68875710057213, 25.207020585802372,
    ),
    (
        74.23732770356752, 1056.4488603826283, 4986.410583376536, 9562.318924047562,
        7997.041604473507, 2826.1927851763908, 336.0936078106983,
    ),
)  # fmt: skip
_J0: Final = (
    (
        -4794432209.782018, 1956174919465.5657, -249248344360967.72, 9708622510473064.0,
    ),
    (
        499.563147152651, 173785.4016763747, 48440965.83399621, 11185553704.535683,
        2112775201154.892, 310518229857422.56, 3.1812195594320496e+16, 1.7108629408104315e+18,
    ),
)  # fmt: skip
_J1: Final = (
    (
        -899971225.7055594, 452228297998.19403, -72749424522181.83, 3682957328638529.0,
    ),
    (
        620.8364781180543, 256987.25675774884, 83514679.14319493, 22151159547.97925,
        4749141220799.914, 784369607876235.9, 8.952223361846274e+16, 5.322786203326801e+18,
    ),
)  # fmt: skip
_Y0: Final = (
    (
        15592.436785523574, -14663929.59039716, 5435264770.518765, -982136065717.9115,
        87590639439536.7, -3466283033847297.0, 4.4273326857256984e+16, -1.8495080043698668e+16,
    ),
    (
        1041.2835366425984, 626107.330137135, 268919633.39381415, 86400248710.3935,
        20297961275010.555, 3171577528429750.5, 2.5059625617265306e+17,
    ),
)  # fmt: skip
_Y1: Final = (
    (
        1263204747.9017804, -647355876379.1603, 114509511541823.73, -8127702555013251.0,
        2.024394757135949e+17, -7.788771962659501e+17,
    ),
    (
        594.3015923461282, 235564.09294306856, 73481194.44597217, 18760131610.870617,
        3882312774962.3857, 620557727146953.8, 6.871410873553005e+16, 3.9727060811656064e+18,
    ),
)  # fmt: skip
_ZEROS_0: Final = (5.783185962946784, 30.471262343662087)
"""Squares of the first two zeros of J0, and of J1."""
_ZEROS_1: Final = (14.681970642123893, 49.21845632169460)


def _ratio(fraction: Fraction, x: Array) -> Array:
    above, below = fraction
    return horner(x, above) / horner(x, below)


def _turning(order: int, x: Array) -> tuple[Array, Array]:
    """Return J and Y far from zero."""
    far = np.maximum(x, NEAR)
    inverse = 25.0 / (far * far)
    even = _ratio((_COSINE_0, _COSINE_1)[order], inverse)
    odd = 5.0 / far * _ratio((_SINE_0, _SINE_1)[order], inverse)
    phase = far - (order / 2 + 0.25) * math.pi
    scale = math.sqrt(2 / math.pi) / np.sqrt(far)
    sine, cosine = np.sin(phase), np.cos(phase)
    return (even * cosine - odd * sine) * scale, (even * sine + odd * cosine) * scale


@elementwise
def j0(x: Array) -> Array:
    size = np.abs(x)
    square = np.minimum(size, NEAR) ** 2
    near = (square - _ZEROS_0[0]) * (square - _ZEROS_0[1]) * _ratio(_J0, square)
    near = np.where(size < 0.00001, 1.0 - square / 4.0, near)
    return np.where(size <= NEAR, near, _turning(0, size)[0])


@elementwise
def j1(x: Array) -> Array:
    size = np.abs(x)
    inside = np.minimum(size, NEAR)
    square = inside**2
    near = _ratio(_J1, square) * inside * (square - _ZEROS_1[0]) * (square - _ZEROS_1[1])
    made = np.where(size <= NEAR, near, _turning(1, size)[0])
    return np.where(x < 0, -made, made)


@elementwise
def y0(x: Array) -> Array:
    inside = np.minimum(x, NEAR)
    near = _ratio(_Y0, inside**2) + 2 / math.pi * np.log(inside) * j0(inside)
    return _of_positive(x, near, _turning(0, x)[1])


@elementwise
def y1(x: Array) -> Array:
    inside = np.minimum(x, NEAR)
    near = inside * _ratio(_Y1, inside**2)
    near = near + 2 / math.pi * (j1(inside) * np.log(inside) - 1.0 / inside)
    return _of_positive(x, near, _turning(1, x)[1])


def _of_positive(x: Array, near: Array, far: Array) -> Array:
    """Return a function of positive numbers: minus infinity at zero, NaN below."""
    made = np.where(x <= NEAR, near, far)
    return np.where(x == 0, -np.inf, np.where(x < 0, np.nan, made)).astype(x.dtype)
