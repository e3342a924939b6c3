"""Samples of activations and of softmax."""

from __future__ import annotations

from tests.runtime.oracle import Real, Sample, Wrong, samples, wrong

SHAPE = (3, 4)
FAR = Real((5, 6), -8, 8)
KINDS = ("float32", "float16", "bfloat16", "int64", "bool", "complex128")


def functional(name: str, *calls: str, shape: object = SHAPE, **options: object) -> None:
    """Samples `nn.functional.<name>(x<call>)` for each text of further arguments."""
    for call in calls:
        code = compile(f"F.{name}(x{call})", f"<sample of {name}>", "eval")
        samples(
            name,
            Sample(
                lambda torch, x, code=code: eval(code, {"F": torch.nn.functional, "x": x}),
                shape,
                dtypes=KINDS,
                **options,
            ),
        )


for _name in ("tanh", "sigmoid", "relu"):
    samples(
        _name,
        Sample(lambda torch, x, n=_name: getattr(torch, n)(x), SHAPE),
        Sample(lambda torch, x, n=_name: getattr(x, n)(), FAR),
        Sample(lambda torch, x, n=_name: getattr(torch.nn.functional, n)(x), ()),
    )
    samples(f"{_name}_", Sample(lambda torch, x, n=_name: getattr(x.clone(), f"{n}_")(), SHAPE))
samples("special.expit", Sample(lambda torch, x: torch.special.expit(x), SHAPE))
samples("relu_", Sample(lambda torch, x: torch.nn.functional.relu(x + 0, inplace=True), SHAPE))
PLAIN = "gelu silu mish softplus logsigmoid elu selu celu glu leaky_relu hardtanh relu6"
for _name in [*PLAIN.split(), *["hardswish", "hardshrink", "softshrink", "tanhshrink", "softsign"]]:
    functional(_name, "")
    functional(_name, "", shape=FAR)
# PyTorch computes it with a sixth in single precision, and has no second derivative of it.
functional("hardsigmoid", "", "", shape=FAR, tolerance=100, order=1)
functional("gelu", ", approximate='tanh'", shape=FAR)
functional("softplus", ", beta=2, threshold=3", shape=FAR)
functional("elu", ", alpha=0.5")
functional("celu", ", alpha=0.5")
functional("glu", ", dim=0", shape=(4, 3))
functional("leaky_relu", ", 0.2")
functional("hardtanh", ", -0.5, 1.5")
functional("hardshrink", ", 0.3")
functional("softshrink", ", 0.3")
functional("threshold", ", 0.1, 20")
for _name in ("silu", "mish", "elu", "selu", "celu", "leaky_relu", "hardtanh", "relu6"):
    samples(
        _name,
        Sample(
            lambda torch, x, n=_name: getattr(torch.nn.functional, n)(x.clone(), inplace=True),
            SHAPE,
            dtypes=KINDS[:-1],
        ),
    )
for _name in ("hardswish", "hardsigmoid"):
    samples(
        _name,
        Sample(
            lambda torch, x, n=_name: getattr(torch.nn.functional, n)(x.clone(), inplace=True),
            SHAPE,
            dtypes=(),
            tolerance=100,
            order=1,
        ),
    )
samples(
    "threshold_",
    Sample(
        lambda torch, x: torch.nn.functional.threshold_(x.clone(), 0.1, 20), SHAPE, dtypes=KINDS
    ),
)
for _name in ("elu_", "selu_", "celu_", "leaky_relu_", "hardtanh_"):
    samples(
        _name,
        Sample(
            lambda torch, x, n=_name: getattr(torch.nn.functional, n)(x.clone()),
            SHAPE,
            dtypes=KINDS,
        ),
    )
samples(
    "prelu",
    Sample(lambda torch, x, a: torch.nn.functional.prelu(x, a), SHAPE, (1,), dtypes=("float32",)),
    Sample(lambda torch, x, a: torch.prelu(x, a), (2, 3, 4), (3,), dtypes=("float32",)),
    Sample(lambda torch, x, a: x.prelu(a), (4,), (1,), dtypes=("float32",)),
)
wrong("prelu", Wrong(lambda torch, x, a: torch.prelu(x, a), (2, 3), (2,)))
wrong("gelu", Wrong(lambda torch, x: torch.nn.functional.gelu(x, approximate="erf"), (3,)))
wrong("glu", Wrong(lambda torch, x: torch.nn.functional.glu(x), (3,)))
wrong("hardtanh", Wrong(lambda torch, x: torch.nn.functional.hardtanh(x, 1, -1), (3,)))
wrong("softshrink", Wrong(lambda torch, x: torch.nn.functional.softshrink(x, -1), (3,)))
wrong("relu", Wrong(lambda torch, x: torch.relu(x), (3,), dtype="bool"))

for _name in ("softmax", "log_softmax"):
    for _dim in (-1, 0, 1):
        samples(
            _name,
            Sample(lambda torch, x, n=_name, d=_dim: getattr(torch, n)(x, d), SHAPE, dtypes=KINDS),
        )
    samples(
        _name,
        Sample(lambda torch, x, n=_name: getattr(x, n)(dim=1), (2, 3, 4), dtypes=KINDS),
        Sample(lambda torch, x, n=_name: getattr(x, n)(0), (), dtypes=KINDS),
        Sample(lambda torch, x, n=_name: getattr(x, n)(1), (2, 0), dtypes=()),
        Sample(
            lambda torch, x, n=_name: getattr(torch.nn.functional, n)(
                x, dim=1, dtype=torch.float64
            ),
            SHAPE,
            dtypes=("float32", "int64"),
        ),
        Sample(
            lambda torch, x, n=_name: getattr(torch.nn.functional, n)(x * 300), SHAPE, dtypes=KINDS
        ),
    )
    wrong(_name, Wrong(lambda torch, x, n=_name: getattr(torch, n)(x, 2), SHAPE))
    samples(
        f"special.{_name}",
        Sample(lambda torch, x, n=_name: getattr(torch.special, n)(x, 1), SHAPE, dtypes=()),
    )
functional("softmin", ", dim=1")
