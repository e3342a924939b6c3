"""Samples of functions of one number, of comparisons, and of choices."""

from __future__ import annotations

import numpy as np

from tests.runtime.oracle import Fixed, Real, Sample, Wrong, samples, wrong

ANY, POSITIVE, INSIDE = Real((3, 4)), Real((3, 4), 0.2, 3), Real((3, 4), -0.9, 0.9)
UNARY = {
    ANY: "exp exp2 expm1 sin cos tan atan arctan sinh cosh asinh arcsinh erf erfc sgn sign floor "
    "ceil trunc fix round frac abs absolute deg2rad rad2deg nan_to_num sinc",
    POSITIVE: "log log2 log10 log1p sqrt rsqrt lgamma digamma",
    INSIDE: "asin acos arcsin arccos atanh arctanh erfinv",
    Real((3, 4), 1.2, 3): "acosh arccosh",
    Real((3, 4), 0.1, 0.9): "logit",
}
NO_TWIN_GRADIENT = {"asinh", "acosh", "atanh", "arcsinh", "arccosh", "arctanh"}
"""PyTorch has no derivative of their in-place form."""
KINDS = ("float32", "float16", "bfloat16", "int64", "uint8", "bool", "complex128")
REAL_KINDS = KINDS[:-1]
"""Without complex numbers, which one engine takes and the other does not."""

for _domain, _names in UNARY.items():
    for _name in _names.split():
        samples(
            _name,
            Sample(lambda torch, x, name=_name: getattr(torch, name)(x), _domain, dtypes=KINDS),
            Sample(
                lambda torch, x, name=_name: getattr(x, name)(),
                Real((), _domain.low, _domain.high),
                dtypes=(),
            ),
            Sample(lambda torch, x, name=_name: getattr(torch, name)(x), (2, 0, 3), dtypes=()),
        )
        samples(
            f"{_name}_",
            Sample(
                lambda torch, x, name=_name: getattr(x.clone(), f"{name}_")(),
                _domain,
                dtypes=REAL_KINDS if _name in {"abs", "absolute"} else KINDS,
                grad=_name not in NO_TWIN_GRADIENT,
            ),
        )

SPECIAL = Fixed([float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1.5, -2.5, 3.5, 1e300])
for _name in [
    "exp",
    "log",
    "sqrt",
    "abs",
    "sign",
    "floor",
    "round",
    "isnan",
    "isinf",
    "isfinite",
    "nan_to_num",
    "tan",
    "atan",
]:
    samples(
        _name, Sample(lambda torch, x, name=_name: getattr(torch, name)(x), SPECIAL, grad=False)
    )
for _name in [
    "exp2",
    "expm1",
    "log1p",
    "erf",
    "erfc",
    "erfinv",
    "logit",
    "sinc",
    "digamma",
    "psi",
    "gammaln",
]:
    samples(
        f"special.{_name}",
        Sample(lambda torch, x, name=_name: getattr(torch.special, name)(x), Real((3,), 0.1, 0.9)),
    )
samples("round.decimals", Sample(lambda torch, x: torch.round(x, decimals=2), (3, 4)))
samples("round_.decimals", Sample(lambda torch, x: x.clone().round_(decimals=1), (3, 4)))
samples("logit", Sample(lambda torch, x: torch.logit(x, 0.3), Real((9,), 0, 1)))
samples(
    "nan_to_num",
    Sample(lambda torch, x: torch.nan_to_num(x, 1.0, 2.0, 3.0), SPECIAL, grad=False),
)
samples(
    "polygamma.n",
    Sample(lambda torch, x: torch.polygamma(1, x), POSITIVE),
    Sample(lambda torch, x: torch.polygamma(2, x), POSITIVE),
)
samples(
    "polygamma",
    Sample(lambda torch, x: torch.polygamma(1, x), POSITIVE),
    Sample(lambda torch, x: x.polygamma(2), POSITIVE),
)
samples("polygamma_", Sample(lambda torch, x: x.clone().polygamma_(1), POSITIVE))
wrong("polygamma", Wrong(lambda torch, x: torch.polygamma(-1, x), (3,)))
samples("special.polygamma", Sample(lambda torch, x: torch.special.polygamma(1, x), POSITIVE))

for _name in ("atan2", "arctan2", "hypot", "logaddexp", "logaddexp2", "fmax", "fmin"):
    samples(
        _name,
        Sample(
            lambda torch, x, y, name=_name: getattr(torch, name)(x, y),
            (3, 4),
            (4,),
            dtypes=REAL_KINDS,
        ),
        Sample(
            lambda torch, x, y, name=_name: getattr(torch, name)(x, y), (), (2,), dtypes=REAL_KINDS
        ),
    )
for _name in ("atan2_", "arctan2_", "hypot_"):
    samples(
        _name, Sample(lambda torch, x, y, name=_name: getattr(x.clone(), name)(y), (3, 4), (4,))
    )
for _name in ("maximum", "minimum"):
    samples(
        _name,
        Sample(lambda torch, x, y, name=_name: getattr(torch, name)(x, y), (3, 4), (4,)),
        Sample(lambda torch, x, name=_name: getattr(torch, name)(x, x * 1), (3,)),
        Sample(lambda torch, x, y, name=_name: getattr(torch, name)(x, y), (), (2, 1)),
    )
    wrong(_name, Wrong(lambda torch, x, name=_name: getattr(torch, name)(x, 2), (3,)))
samples("xlogy.Tensor", Sample(lambda torch, x, y: torch.xlogy(x, y), (3, 4), Real((4,), 0.2, 2)))
samples("xlogy.Scalar_Other", Sample(lambda torch, x: torch.xlogy(x, 2.5), (3, 4)))
samples("xlogy.Scalar_Self", Sample(lambda torch, x: torch.xlogy(2.5, x), POSITIVE))
samples("xlogy", Sample(lambda torch, x, y: x.xlogy(y), (3, 4), POSITIVE))
samples("special.xlogy", Sample(lambda torch, x, y: torch.special.xlogy(x, y), (3, 4), POSITIVE))
samples("xlogy_.Tensor", Sample(lambda torch, x, y: x.clone().xlogy_(y), (3, 4), POSITIVE))
samples("xlogy_.Scalar_Other", Sample(lambda torch, x: x.clone().xlogy_(2.5), (3, 4)))
samples("xlogy_", Sample(lambda torch, x: x.clone().xlogy_(2.5), (3, 4)))

for _name in ("not_equal", "less", "less_equal", "greater", "greater_equal"):
    samples(
        f"{_name}_",
        Sample(
            lambda torch, x, y, name=_name: getattr(x.clone(), f"{name}_")(y),
            (3, 4),
            (4,),
            grad=False,
        ),
    )
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    samples(
        _name,
        Sample(
            lambda torch, x, y, name=_name: getattr(torch, name)(x, y), (3, 4), (4,), grad=False
        ),
        Sample(lambda torch, x, name=_name: getattr(x, name)(1), (3, 4), grad=False),
        Sample(lambda torch, x, name=_name: getattr(x, name)(0.5), (3, 4), grad=False),
        Sample(lambda torch, x, name=_name: getattr(x, f"__{name}__")(1), (3, 4), grad=False),
    )
    samples(
        f"{_name}_",
        Sample(lambda torch, x, name=_name: getattr(x.clone(), f"{name}_")(1), (3, 4), grad=False),
    )
for _name in ("not_equal", "less", "less_equal", "greater", "greater_equal"):
    samples(
        _name,
        Sample(lambda torch, x, y, name=_name: getattr(torch, name)(x, y), (3,), (3,), grad=False),
    )
for _name in ("logical_and", "logical_or", "logical_xor"):
    samples(
        _name,
        Sample(
            lambda torch, x, y, name=_name: getattr(torch, name)(x, y), (3, 4), (4,), grad=False
        ),
    )
    samples(
        f"{_name}_",
        Sample(
            lambda torch, x, y, name=_name: getattr(x.clone(), f"{name}_")(y),
            (3,),
            (3,),
            grad=False,
        ),
    )
    wrong(_name, Wrong(lambda torch, x, name=_name: getattr(torch, name)(x, 1), (3,)))
samples("logical_not", Sample(lambda torch, x: torch.logical_not(x), (3, 4), grad=False))
samples("logical_not_", Sample(lambda torch, x: x.clone().logical_not_(), (3, 4), grad=False))

WHOLE = Fixed([[0, 1, 2, 3], [4, 5, -6, -7]])
OTHER = Fixed([1, 2, 3, 4])
BYTES, FLAGS = Fixed(np.array([1, 2, 5], np.uint8)), Fixed(np.array([True, False, True]))
SMALL_AND_BOOLS = ((BYTES, BYTES), (BYTES, Fixed(np.array([3, 0, 1], np.int32))))
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift")
for _name in BITS:
    samples(
        _name,
        Sample(
            lambda torch, x, y, name=_name: getattr(torch, name)(x, y), WHOLE, OTHER, grad=False
        ),
        Sample(lambda torch, x, name=_name: getattr(torch, name)(x, 2), WHOLE, grad=False),
        *(
            Sample(lambda torch, x, y, name=_name: getattr(torch, name)(x, y), one, two, grad=False)
            for one, two in SMALL_AND_BOOLS
        ),
    )
    samples(
        f"{_name}_",
        Sample(
            lambda torch, x, y, name=_name: getattr(x.clone(), f"{name}_")(y),
            WHOLE,
            OTHER,
            grad=False,
        ),
    )
samples(
    "bitwise_not",
    Sample(lambda torch, x: ~x, WHOLE, grad=False),
    Sample(lambda torch, x: ~(x > 0), (3, 4), grad=False),
)
samples("bitwise_not_", Sample(lambda torch, x: x.clone().bitwise_not_(), WHOLE, grad=False))
for _name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    samples(
        _name,
        Sample(lambda torch, x, name=_name: getattr(torch, name)(x, True), FLAGS, grad=False),
        Sample(
            lambda torch, x, y, name=_name: getattr(torch, name)(x, y), FLAGS, BYTES, grad=False
        ),
    )
wrong("bitwise_not", Wrong(lambda torch, x: ~x, (3,)))

for _name in ("isnan", "isinf", "isfinite", "isposinf", "isneginf", "isreal", "signbit"):
    samples(
        _name,
        Sample(lambda torch, x, name=_name: getattr(torch, name)(x), (3,), grad=False),
        Sample(lambda torch, x, name=_name: getattr(torch, name)(x), SPECIAL, grad=False),
    )
samples(
    "isclose",
    Sample(lambda torch, x: torch.isclose(x, x + 1e-9), (3,), grad=False),
    Sample(lambda torch, x: torch.isclose(x, x, equal_nan=True), SPECIAL, grad=False),
    Sample(lambda torch, x: torch.isclose(x, x), SPECIAL, grad=False),
    Sample(lambda torch, x: torch.isclose(x, x + 0.1, atol=0.2), (3,), grad=False),
)
samples("allclose", Sample(lambda torch, x: torch.allclose(x, x + 1e-9), (3,), grad=False))
samples(
    "equal",
    Sample(lambda torch, x: torch.equal(x, x.clone()), (3,), grad=False),
    Sample(lambda torch, x, y: torch.equal(x, y), (3,), (1,), grad=False),
)
samples("isin", Sample(lambda torch, x, y: torch.isin(x, y), WHOLE, OTHER, grad=False))

MASK = Fixed([[True, False, True, False], [False, True, True, False], [True, True, False, False]])
samples(
    "where",
    Sample(lambda torch, m, x, y: torch.where(m, x, y), MASK, (3, 4), (4,)),
    Sample(lambda torch, m, x: torch.where(m, x, 1), MASK, (3, 4)),
    Sample(lambda torch, m, x: torch.where(m, 0.5, x), MASK, (3, 4)),
    Sample(lambda torch, m, x, y: x.where(m, y), MASK, (3, 4), ()),
)
wrong("where", Wrong(lambda torch, x: torch.where(x, x, x), (3,)))
samples(
    "masked_fill.Scalar",
    Sample(lambda torch, m, x: x.masked_fill(m, 2), MASK, (3, 4)),
    Sample(lambda torch, m, x: x.masked_fill(m, float("-inf")), MASK, (4,)),
)
samples("masked_fill.Tensor", Sample(lambda torch, m, x, y: x.masked_fill(m, y), MASK, (3, 4), ()))
samples("masked_fill", Sample(lambda torch, m, x: torch.masked_fill(x, m, 1), MASK, (3, 4)))
for _twin in ("masked_fill_", "masked_fill_.Scalar"):
    samples(_twin, Sample(lambda torch, m, x: x.clone().masked_fill_(m, 2), MASK, (3, 4)))
samples(
    "masked_fill_.Tensor",
    Sample(lambda torch, m, x, y: x.clone().masked_fill_(m, y), MASK, (3, 4), ()),
)
for _name in ("clamp", "clip"):
    samples(_name, Sample(lambda torch, x, name=_name: getattr(torch, name)(x, -1, 1), (3, 4)))
    samples(
        f"{_name}_", Sample(lambda torch, x, name=_name: getattr(x.clone(), f"{name}_")(0), (3, 4))
    )
samples(
    "clamp",
    Sample(lambda torch, x: x.clamp(-0.5, 1), (3, 4)),
    Sample(lambda torch, x: x.clamp(min=0), (3, 4)),
    Sample(lambda torch, x: x.clamp(max=0.5), (3, 4)),
    Sample(lambda torch, x: x.clamp(0, 1), ()),
    Sample(lambda torch, x: x.clamp(1, -1), (3,)),
)
wrong("clamp", Wrong(lambda torch, x: torch.clamp(x), (3,)))
samples(
    "clamp.Tensor",
    Sample(lambda torch, x, y, z: x.clamp(y, z), (3, 4), Real((4,), -1, 0), Real((3, 1), 0, 1)),
    Sample(lambda torch, x, y: x.clamp(min=y), (3, 4), (4,)),
    Sample(lambda torch, x, y: x.clamp(max=y), (3, 4), (4,)),
    Sample(lambda torch, x, y, z: x.clamp(y, z), (3, 4), (4,), (3, 1)),
)
samples("clamp_.Tensor", Sample(lambda torch, x, y: x.clone().clamp_(min=y), (3, 4), (4,)))
for _name in ("clamp_min", "clamp_max"):
    samples(_name, Sample(lambda torch, x, name=_name: getattr(torch, name)(x, 0.5), (3, 4)))
    samples(
        f"{_name}.Tensor",
        Sample(lambda torch, x, y, name=_name: getattr(x, name)(y), (3, 4), (4,)),
    )
    samples(
        f"{_name}_", Sample(lambda torch, x, name=_name: getattr(x.clone(), f"{name}_")(0), (3, 4))
    )
    samples(
        f"{_name}_.Tensor",
        Sample(lambda torch, x, y, name=_name: getattr(x.clone(), f"{name}_")(y), (3, 4), (4,)),
    )
