"""Samples of sums, products, powers and remainders."""

from __future__ import annotations

from tests.runtime.oracle import Fixed, Real, Sample, Wrong, samples, wrong

NONZERO = Real((3, 4), 0.5, 2.5)

for name in ("add", "sub", "mul", "div"):
    samples(
        name,
        Sample(lambda torch, x, y, name=name: getattr(torch, name)(x, y), (3, 4), NONZERO),
        Sample(lambda torch, x, y, name=name: getattr(x, name)(y), (3, 4), Real((4,), 0.5, 2)),
        Sample(lambda torch, x, y, name=name: getattr(x, name)(y), (4,), Real((2, 1, 1), 0.5, 2)),
        Sample(lambda torch, x, name=name: getattr(torch, name)(x, 3), (3, 4)),
        Sample(lambda torch, x, name=name: getattr(torch, name)(x, 2.5), (3, 4)),
        Sample(lambda torch, x, y, name=name: getattr(torch, name)(x, y), (2, 0), ()),
        Sample(lambda torch, x, y, name=name: getattr(torch, name)(x, y), (), Real((), 1, 2)),
        Sample(lambda torch, x, name=name: getattr(torch, name)(x, x), NONZERO),
        # Promotion: the other operand has a dtype of its own, with and without dimensions.
        Sample(lambda torch, x, y, name=name: getattr(torch, name)(x, y), (3,), Fixed([1, 2, 3])),
        Sample(lambda torch, x, y, name=name: getattr(torch, name)(y, x), (3,), Fixed(2.5)),
    )
    samples(
        f"{name}_",
        Sample(lambda torch, x, y, name=name: getattr(x.clone(), f"{name}_")(y), (3, 4), NONZERO),
        Sample(lambda torch, x, y, name=name: getattr(x.clone(), f"{name}_")(y), (3, 4), (1, 4)),
        Sample(lambda torch, x, name=name: getattr(x.clone(), f"{name}_")(2), (3, 4)),
        Sample(lambda torch, x, name=name: getattr(x.clone(), f"{name}_")(2.5), (3, 4)),
    )
    wrong(
        name,
        Wrong(lambda torch, x, y, name=name: getattr(torch, name)(x, y), (3, 4), (5,)),
        Wrong(lambda torch, x, y, name=name: getattr(torch, name)(x, y), (2, 3, 4), (5, 1, 4)),
        Wrong(lambda torch, x, name=name: getattr(torch, name)(x, "2"), (3,)),
    )
    wrong(
        f"{name}_",
        Wrong(lambda torch, x, name=name: getattr(x, f"{name}_")(2), (3,)),
        Wrong(lambda torch, x, y, name=name: getattr(x.clone(), f"{name}_")(y), (3,), (2, 3)),
        Wrong(lambda torch, x, name=name: getattr(x, f"{name}_")(2.5), (3,), dtype="int64"),
        Wrong(lambda torch, x, name=name: getattr(x[0], f"{name}_")(2), (3,)),
    )

for name in ("add", "sub"):
    samples(
        f"{name}.alpha",
        Sample(lambda torch, x, y, name=name: getattr(torch, name)(x, y, alpha=2), (3, 4), (4,)),
        Sample(lambda torch, x, y, name=name: getattr(torch, name)(x, y, alpha=0.5), (3,), (3,)),
        Sample(lambda torch, x, name=name: getattr(torch, name)(x, 3, alpha=2), (3, 4)),
    )
    samples(
        f"{name}_.alpha",
        Sample(
            lambda torch, x, y, name=name: getattr(x.clone(), f"{name}_")(y, alpha=2), (3, 4), (4,)
        ),
    )
samples(
    "rsub.Scalar",
    Sample(lambda torch, x: 1 - x, (3, 4)),
    Sample(lambda torch, x: 2.5 - x, (3, 4)),
    Sample(lambda torch, x: torch.rsub(x, 1), ()),
)
samples("rsub.Scalar_alpha", Sample(lambda torch, x: torch.rsub(x, 3, alpha=2), (3, 4)))
samples(
    "rsub.Tensor",
    Sample(lambda torch, x, y: torch.rsub(x, y), (3, 4), (4,)),
    Sample(lambda torch, x, y: torch.rsub(x, y, alpha=2), (3, 4), (4,)),
)
samples("rsub", Sample(lambda torch, x, y: torch.rsub(x, y), (3, 4), (4,)))
samples("subtract", Sample(lambda torch, x, y: torch.subtract(x, y), (3, 4), (4,)))
samples("multiply", Sample(lambda torch, x, y: torch.multiply(x, y), (3, 4), (4,)))
samples("divide", Sample(lambda torch, x, y: torch.divide(x, y), (3, 4), NONZERO))
samples("true_divide", Sample(lambda torch, x, y: torch.true_divide(x, y), (3, 4), NONZERO))
samples("subtract_", Sample(lambda torch, x, y: x.clone().subtract_(y), (3, 4), (4,)))
samples("multiply_", Sample(lambda torch, x, y: x.clone().multiply_(y), (3, 4), (4,)))
samples("divide_", Sample(lambda torch, x, y: x.clone().divide_(y), (3, 4), NONZERO))
samples("true_divide_", Sample(lambda torch, x, y: x.clone().true_divide_(y), (3, 4), NONZERO))
for mode in ("floor", "trunc"):
    samples(
        "div.Tensor_mode",
        Sample(
            lambda torch, x, y, mode=mode: torch.div(x, y, rounding_mode=mode),
            Real((3, 4), -9, 9),
            NONZERO,
        ),
        Sample(
            lambda torch, x, mode=mode: torch.div(x, -2, rounding_mode=mode), Real((3, 4), -9, 9)
        ),
    )
    samples(
        "div_.Tensor_mode",
        Sample(
            lambda torch, x, y, mode=mode: x.clone().div_(y, rounding_mode=mode),
            Real((3, 4), -9, 9),
            NONZERO,
        ),
    )
wrong(
    "div.Tensor_mode",
    Wrong(lambda torch, x: torch.div(x, 2, rounding_mode="up"), (3,)),
    Wrong(lambda torch, x: torch.div(x, x - x, rounding_mode="floor"), (3,), dtype="int64"),
)
wrong("sub", Wrong(lambda torch, x: x - x, (3,), dtype="bool"))
wrong("neg", Wrong(lambda torch, x: -x, (3,), dtype="bool"))

for name in ("neg", "reciprocal"):
    samples(
        name,
        Sample(lambda torch, x, name=name: getattr(torch, name)(x), NONZERO),
        Sample(lambda torch, x, name=name: getattr(torch, name)(x), Real((), 1, 2)),
        Sample(lambda torch, x, name=name: getattr(torch, name)(x), (0, 2)),
    )
    samples(
        f"{name}_", Sample(lambda torch, x, name=name: getattr(x.clone(), f"{name}_")(), NONZERO)
    )
samples("negative", Sample(lambda torch, x: torch.negative(x), (3, 4)))
samples("negative_", Sample(lambda torch, x: x.clone().negative_(), (3, 4)))
samples("positive", Sample(lambda torch, x: +x * 2, (3, 4)))

samples(
    "lerp.Scalar",
    Sample(lambda torch, x, y: torch.lerp(x, y, 0.3), (3, 4), (4,)),
    Sample(lambda torch, x, y: torch.lerp(x, y, 0.8), (3, 4), (3, 4)),
)
samples("lerp.Tensor", Sample(lambda torch, x, y, z: torch.lerp(x, y, z), (3, 4), (4,), (3, 1)))
samples("lerp", Sample(lambda torch, x, y: x.lerp(y, 0.3), (3, 4), (4,)))
samples("lerp_.Scalar", Sample(lambda torch, x, y: x.clone().lerp_(y, 0.3), (3, 4), (4,)))
samples("lerp_.Tensor", Sample(lambda torch, x, y, z: x.clone().lerp_(y, z), (3, 4), (4,), (4,)))
samples("lerp_", Sample(lambda torch, x, y: x.clone().lerp_(y, 0.7), (3, 4), (4,)))
for name in ("addcmul", "addcdiv"):
    samples(
        name,
        Sample(
            lambda torch, x, y, z, name=name: getattr(torch, name)(x, y, z),
            (3, 4),
            (4,),
            Real((3, 1), 0.5, 2),
        ),
        Sample(
            lambda torch, x, y, z, name=name: getattr(torch, name)(x, y, z, value=2),
            (3, 4),
            (3, 4),
            NONZERO,
        ),
    )
    samples(
        f"{name}_",
        Sample(
            lambda torch, x, y, z, name=name: getattr(x.clone(), f"{name}_")(y, z, value=0.5),
            (3, 4),
            (4,),
            NONZERO,
        ),
    )

for exponent in (0, 1, 2, 3, -1, 0.5, 2.5):
    samples(
        "pow.Tensor_Scalar",
        Sample(lambda torch, x, e=exponent: x**e, Real((3, 4), 0.2, 2)),
    )
samples(
    "pow.Tensor_Scalar",
    Sample(lambda torch, x: x**2, ()),
    Sample(lambda torch, x: x**3, (0, 2)),
    Sample(lambda torch, x: torch.pow(x, -2), Real((3,), -2, -1)),
)
samples(
    "pow.Tensor_Tensor",
    Sample(lambda torch, x, y: x**y, Real((3, 4), 0.2, 2), (4,)),
    Sample(lambda torch, x, y: torch.pow(x, y), Real((3, 4), 0.2, 2), Real((), 0, 2)),
    Sample(lambda torch, x, y: x**y, Real((3,), 0.2, 2), Fixed([0.0, 1.0, 2.0])),
    Sample(lambda torch, x, y: (x - x) ** y, (3,), Fixed([0.0, 1.0, 2.0]), dtypes=("float32",)),
)
samples(
    "pow.Scalar",
    Sample(lambda torch, x: 2**x, (3, 4)),
    Sample(lambda torch, x: 0.5**x, (3,)),
    Sample(lambda torch, x: 0**x, Real((3,), 1, 2), order=1, dtypes=("float32", "int64")),
)
samples("pow", Sample(lambda torch, x: torch.pow(x, 2), (3, 4)))
samples(
    "float_power_",
    Sample(lambda torch, x: x.clone().double().float_power_(3), (3, 4)),
    Sample(lambda torch, x, y: x.clone().double().float_power_(y), Real((3, 4), 0.2, 2), (4,)),
)
wrong(
    "float_power_",
    Wrong(lambda torch, x: x.float().float_power_(2), (3,)),
    Wrong(lambda torch, x: x.clone().float_power_(2j), (3,)),
)
samples("pow_", Sample(lambda torch, x: x.clone().pow_(2), (3, 4)))
samples("pow_.Tensor_Scalar", Sample(lambda torch, x: x.clone().pow_(3), (3, 4)))
samples(
    "pow_.Tensor_Tensor",
    Sample(lambda torch, x, y: x.clone().pow_(y), Real((3, 4), 0.2, 2), (4,)),
)
wrong("pow.Tensor_Scalar", Wrong(lambda torch, x: x**-1, (3,), dtype="int64"))
samples("square", Sample(lambda torch, x: torch.square(x), (3, 4)))
samples("square_", Sample(lambda torch, x: x.clone().square_(), (3, 4)))
samples(
    "float_power",
    Sample(lambda torch, x: torch.float_power(x, 2), (3, 4)),
    Sample(lambda torch, x, y: torch.float_power(x, y), Real((3,), 0.2, 2), (3,)),
)

FAR = Real((3, 4), -9, 9)
for name in ("remainder", "fmod", "floor_divide"):
    differentiable = name != "floor_divide"
    samples(
        name,
        Sample(
            lambda torch, x, y, name=name: getattr(torch, name)(x, y),
            FAR,
            NONZERO,
            grad=differentiable,
        ),
    )
    samples(
        f"{name}.Tensor",
        Sample(
            lambda torch, x, y, name=name: getattr(torch, name)(x, -y),
            FAR,
            NONZERO,
            grad=differentiable,
        ),
        Sample(
            lambda torch, x, y, name=name: getattr(torch, name)(x, y),
            Real((3, 1), -9, 9),
            Real((4,), 0.5, 3),
            grad=differentiable,
        ),
    )
    samples(
        f"{name}.Scalar",
        Sample(lambda torch, x, name=name: getattr(torch, name)(x, 2), FAR, grad=differentiable),
        Sample(lambda torch, x, name=name: getattr(torch, name)(x, -1.5), FAR, grad=differentiable),
    )
    samples(
        f"{name}_.Tensor",
        Sample(
            lambda torch, x, y, name=name: getattr(x.clone(), f"{name}_")(y),
            FAR,
            NONZERO,
            grad=differentiable,
        ),
    )
    for twin in (f"{name}_", f"{name}_.Scalar"):
        samples(
            twin,
            Sample(
                lambda torch, x, name=name: getattr(x.clone(), f"{name}_")(2),
                FAR,
                grad=differentiable,
            ),
        )
samples("remainder.Scalar_Tensor", Sample(lambda torch, x: 7 % x, NONZERO, grad=False))
wrong(
    "floor_divide",
    Wrong(lambda torch, x: (x // 2).sum().backward(), (3,)),
    Wrong(lambda torch, x: x // 0, (3,), dtype="int64"),
)
wrong("remainder", Wrong(lambda torch, x: x % 0, (3,), dtype="int64"))
