"""Samples of results that are written into tensors given for them, and of what writes in place."""

from __future__ import annotations

from tests.runtime.core.ops.written import cases, faults
from tests.runtime.oracle import Sample, Wrong, samples, wrong

samples(
    "exp",
    Sample(
        lambda torch, x: torch.exp(x, out=torch.zeros(3, dtype=x.dtype)),
        (3,),
        grad=False,
        dtypes=("float32", "float16"),
    ),
    Sample(lambda torch, x: torch.exp_(x.clone()), (3,)),
)
samples(
    "cumsum",
    Sample(
        lambda torch, x: torch.cumsum(x, 0, out=torch.zeros(0, dtype=x.dtype)),
        (3,),
        grad=False,
        dtypes=("float32", "int64"),
    ),
)
wrong(
    "exp",
    Wrong(lambda torch, x: torch.exp(x, out=torch.zeros(3, dtype=torch.int64)), (3,)),
    Wrong(lambda torch, x: torch.exp(x.detach(), out=torch.zeros(1).double().expand(3)), (3,)),
    Wrong(lambda torch, x: torch.exp(2), (3,)),
)
wrong(
    "gather",
    Wrong(
        lambda torch, x: torch.gather(
            x.detach(), 0, torch.zeros(1, dtype=torch.int64), out=torch.zeros(1)
        ),
        (3,),
    ),
)
wrong("max", Wrong(lambda torch, x: torch.max(2, x), (3,)))
wrong("add", Wrong(lambda torch, x: torch.eq(2, x), (3,)))

for _name in ("j0", "j1", "y0", "y1"):
    for _key in (f"special.bessel_{_name}", f"special_bessel_{_name}"):
        samples(
            _key,
            Sample(
                lambda torch, x, n=_name: getattr(torch.special, f"bessel_{n}")(x.abs() + 9),
                (3,),
                tolerance=100,  # PyTorch's j1 and y1 are off by 5e-9
                grad=False,
                dtypes=("float32", "int64"),
            ),
        )
cases(
    "median",
    [(3, 4)],
    "torch.median(x, 1, out=(torch.zeros(3, dtype=x.dtype), torch.zeros(3, dtype=torch.int64)))",
    grad=False,
    dtypes=("float32", "int64"),
)
for _name in ("median", "nanmedian"):
    faults(
        _name,
        [(3, 4)],
        f"torch.{_name}(x.detach(), out=torch.zeros((), dtype=x.dtype))",
        *(
            f"o = torch.zeros(3)\ntorch.{_name}(x.detach(), 1, out=(o.{values}(), o.{places}()))"
            for values, places in (
                ("float", "long"),
                ("bfloat16", "long"),
                ("bool", "long"),
                ("double", "int"),
                ("float", "cdouble"),
            )
        ),
    )
for _name in ("sum", "prod", "cumsum"):
    _shape = 3 if _name != "cumsum" else (3, 4)
    faults(
        _name,
        [(3, 4)],
        f"torch.{_name}(x.detach(), 1, dtype=torch.float32, out=torch.zeros({_shape}).long())",
    )
    cases(
        _name,
        [(3, 4)],
        f"torch.{_name}(x * 3, 1, out=torch.zeros({_shape}, dtype=torch.int64))",
        f"torch.{_name}(x, 1, dtype=torch.float32, out=torch.zeros({_shape}))",
        grad=False,
        dtypes=("float32", "int32"),
    )
