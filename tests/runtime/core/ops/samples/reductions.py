"""Samples of reductions, norms and scans."""

from __future__ import annotations

from tests.runtime.oracle import Fixed, Sample, Wrong, samples, wrong

SHAPE = (2, 3, 4)
REAL = ("float32", "float16", "bfloat16", "int64", "uint8")
TIES = Fixed([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
NANS = Fixed([[1.0, float("nan"), 3.0], [2.0, float("inf"), -2.0]])


def file(name: str, *calls: str, shape: object = SHAPE, **options: object) -> None:
    """Samples `x.<name>(<call>)` for each text of arguments."""
    for call in calls:
        code = compile(f"x.{name}({call})", f"<sample of {name}>", "eval")
        samples(name, Sample(lambda torch, x, code=code: eval(code), shape, **options))


def also(name: str, overload: str, *calls: str, shape: object = SHAPE, **options: object) -> None:
    """The same, filed under an overload."""
    for call in calls:
        code = compile(f"x.{name}({call})", f"<sample of {name}>", "eval")
        samples(
            f"{name}.{overload}", Sample(lambda torch, x, code=code: eval(code), shape, **options)
        )


for _name in ("sum", "mean"):
    file(_name, "", "dim=None", "axis=0", "dim=(0, 2), keepdims=True", "keepdim=True, dim=1")
    file(_name, "", "0", "-1", shape=())
    file(_name, "", "1", "0", shape=(0, 3))
    also(_name, "dim", "0", "-1", "(0, 1)", "(2, 0), True", "()", "1, keepdim=True")
    samples(_name, Sample(lambda torch, x, n=_name: getattr(torch, n)(x, 1), SHAPE))
    samples(
        _name,
        Sample(
            lambda torch, x, n=_name: getattr(torch, n)(x.float(), dtype=x.dtype), SHAPE, dtypes=()
        ),
    )
    wrong(
        _name,
        Wrong(lambda torch, x, n=_name: getattr(x, n)(3), SHAPE),
        Wrong(lambda torch, x, n=_name: getattr(x, n)((0, 0)), SHAPE),
    )
wrong("mean", Wrong(lambda torch, x: x.mean(), (3,), dtype="int64"))
samples(
    "sum", Sample(lambda torch, x: x.sum(dtype=torch.float64), SHAPE, dtypes=("float32", "int64"))
)
file("nansum", "", "1", "(0, 2), True")
samples("nansum", Sample(lambda torch, x: x.nansum(1), NANS, grad=False))
file("nanmean", "", "1")
samples("nanmean", Sample(lambda torch, x: x.nanmean(1), NANS, grad=False))
file("count_nonzero", "", "1", "(0, 1)", grad=False)
for _name in ("var", "std"):
    file(
        _name,
        "",
        "0",
        "unbiased=False",
        "False",
        "1, False",
        "dim=(0, 2), correction=0, keepdim=True",
    )
    also(_name, "correction", "correction=2", "1, keepdim=True", "dim=1, unbiased=True")
    file(_name, "0", shape=(1, 3), order=1)
for _name in ("var_mean", "std_mean"):
    for _key in (_name, f"{_name}.correction"):
        samples(
            _key,
            Sample(lambda torch, x, n=_name: getattr(torch, n)(x), SHAPE),
            Sample(lambda torch, x, n=_name: getattr(torch, n)(x, 1, keepdim=True), SHAPE),
            Sample(lambda torch, x, n=_name: getattr(torch, n)(x, (0, 2), correction=0), SHAPE),
        )
file("logsumexp", "1", "(0, 2)", "-1, keepdim=True")
file("logsumexp", "0", shape=())
samples("special.logsumexp", Sample(lambda torch, x: torch.special.logsumexp(x, 1), SHAPE))

for _name in ("amax", "amin"):
    file(_name, "", "1", "(0, 2), True", "dim=-1")
    file(_name, "1", "", shape=TIES, grad=False)
    samples(_name, Sample(lambda torch, x, y, n=_name: getattr(x * 0 + y, n)(1), (2, 3), TIES))
    wrong(_name, Wrong(lambda torch, x, n=_name: getattr(x, n)(3), SHAPE))
for _name in ("max", "min"):
    file(_name, "", "1", "-1, True", "dim=0, keepdim=True")
    file(_name, "", "0", shape=())
    also(_name, "dim", "1", "-1, True")
    samples(
        _name,
        Sample(lambda torch, x, y, n=_name: getattr(torch, n)(x, y), SHAPE, (3, 4)),
        Sample(lambda torch, x, y, n=_name: getattr(x * 0 + y, n)(), (2, 3), TIES),
        Sample(lambda torch, x, n=_name: getattr(x, n)(1), TIES, grad=False),
        Sample(lambda torch, x, n=_name: getattr(x, n)(1), NANS, grad=False),
        Sample(lambda torch, x, n=_name: getattr(x, n)(), NANS, grad=False),
    )
    wrong(
        _name,
        Wrong(lambda torch, x, n=_name: getattr(x, n)(), (0, 3)),
        Wrong(lambda torch, x, n=_name: getattr(x, n)(0), (0, 3)),
        Wrong(lambda torch, x, n=_name: getattr(x, n)(3), (2, 3)),
    )
for _name in ("argmax", "argmin"):
    file(_name, "", "1", "-1, keepdim=True", grad=False)
    file(_name, "", "0", shape=(), grad=False)
    file(_name, "1", "", shape=TIES, grad=False)
    file(_name, "1", "", shape=NANS, grad=False)
samples(
    "aminmax",
    Sample(lambda torch, x: torch.aminmax(x), SHAPE),
    Sample(lambda torch, x: x.aminmax(dim=1, keepdim=True), SHAPE),
)
for _name in ("all", "any"):
    file(_name, "", "1", "-1, keepdim=True", grad=False)
    file(_name, "", shape=(0, 3), grad=False)
    also(_name, "dim", "(0, 1)", "0", grad=False)
file("median", "", "1", "-1, keepdim=True")
file("median", "1", "", shape=NANS, grad=False)
also("median", "dim", "0", "1")

file("prod", "", "1", "-1, keepdim=True")
file("prod", "", "0", shape=())
file("prod", "", shape=(0,))
also("prod", "dim", "1", "0, True")
ONE_ZERO = Fixed([[1.0, 0.0, 3.0], [2.0, 2.5, 2.0]])
TWO_ZEROS = Fixed([[1.0, 0.0, 0.0], [0.0, 2.5, 2.0]])
for _zeros in (ONE_ZERO, TWO_ZEROS):
    samples(
        "prod",
        Sample(lambda torch, x, y: (x * y).prod(1), (2, 3), _zeros),
        Sample(lambda torch, x, y: (x * y).prod(), (2, 3), _zeros, order=1),
    )
    samples("cumprod", Sample(lambda torch, x, y: (x * y).cumprod(1), (2, 3), _zeros))
for _name in ("cumsum", "cumprod"):
    file(_name, "1", "-1", "0")
    file(_name, "0", shape=())
    samples(
        f"{_name}_",
        Sample(lambda torch, x, n=_name: getattr(x.clone(), f"{n}_")(1), SHAPE, dtypes=REAL),
    )
    wrong(_name, Wrong(lambda torch, x, n=_name: getattr(x, n)(3), SHAPE))
samples(
    "cumsum", Sample(lambda torch, x: x.cumsum(0, dtype=torch.float64), SHAPE, dtypes=("float32",))
)
for _name in ("cumsum", "cumprod"):
    wrong(_name, Wrong(lambda torch, x, n=_name: getattr(torch, n)(x, 0, dtype=torch.bool), SHAPE))
for _name in ("cummax", "cummin"):
    file(_name, "1", "-1", "0", dtypes=REAL)
    file(_name, "0", shape=(), dtypes=REAL)
    file(_name, "1", shape=TIES, grad=False)
    file(_name, "1", shape=NANS, grad=False)
file("logcumsumexp", "1", "0", dtypes=REAL)

for _p in (
    "",
    "1",
    "3",
    "1.5",
    "0",
    "float('inf')",
    "-float('inf')",
    "2, 1",
    "1, (0, 2), True",
    "'fro'",
):
    file("norm", _p)
file("norm", "", "2, 0", shape=())
for _key in ("linalg.vector_norm", "linalg_vector_norm"):
    samples(
        _key,
        Sample(lambda torch, x: torch.linalg.vector_norm(x), SHAPE),
        Sample(lambda torch, x: torch.linalg.vector_norm(x, 3, dim=1), SHAPE),
        Sample(lambda torch, x: torch.linalg.vector_norm(x, float("inf"), 0), ()),
        Sample(lambda torch, x: torch.linalg.vector_norm(x, dim=(0, 1), keepdim=True), SHAPE),
        Sample(lambda torch, x: torch.linalg.vector_norm(x * 0), (3,), order=1),
    )
wrong(
    "linalg.vector_norm", Wrong(lambda torch, x: torch.linalg.vector_norm(x), (3,), dtype="int64")
)
samples(
    "normalize",
    Sample(lambda torch, x: torch.nn.functional.normalize(x), SHAPE),
    Sample(lambda torch, x: torch.nn.functional.normalize(x, p=1, dim=-1), SHAPE),
)

file("nanmedian", "", "1", "-1, keepdim=True")
file("nanmedian", "1", "", shape=NANS, grad=False)
also("nanmedian", "dim", "0", "1")
samples(
    "dist",
    Sample(lambda torch, x, y: torch.dist(x, y), SHAPE, (3, 4), dtypes=("float32",)),
    Sample(lambda torch, x, y: x.dist(y, 3), SHAPE, SHAPE, dtypes=("float32",)),
    Sample(lambda torch, x, y: x.dist(y, 1), SHAPE, SHAPE, dtypes=("float32",)),
)

samples(
    "_unique",
    Sample(lambda torch, x: torch._unique(x), TIES, grad=False),
    Sample(lambda torch, x: torch._unique(x, return_inverse=True), TIES, grad=False),
)
