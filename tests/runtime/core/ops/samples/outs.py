"""Samples of results that are written into tensors given for them, and of what writes in place."""

from __future__ import annotations

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
