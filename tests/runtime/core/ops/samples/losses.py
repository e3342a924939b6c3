"""Samples of losses."""

from __future__ import annotations

from tests.runtime.oracle import Fixed, Real, Sample, Wrong, samples, wrong

SHAPE = (3, 4)
KINDS = ("float32", "float16", "bfloat16")
REDUCTIONS = ("none", "mean", "sum")
INSIDE = Real(SHAPE, 0.1, 0.9)

for _reduction in REDUCTIONS:
    for _name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
        samples(
            _name,
            Sample(
                lambda torch, x, y, n=_name, r=_reduction: getattr(torch.nn.functional, n)(
                    x, y, reduction=r
                ),
                SHAPE,
                SHAPE,
                dtypes=KINDS,
            ),
        )
    samples(
        "smooth_l1_loss",
        Sample(
            lambda torch, x, y, r=_reduction: torch.nn.functional.smooth_l1_loss(
                x, y, reduction=r, beta=0.5
            ),
            SHAPE,
            SHAPE,
            dtypes=KINDS,
        ),
    )
    samples(
        "huber_loss",
        Sample(
            lambda torch, x, y, r=_reduction: torch.nn.functional.huber_loss(
                x, y, reduction=r, delta=0.5
            ),
            SHAPE,
            SHAPE,
            dtypes=KINDS,
        ),
    )
    for _name, _input in (
        ("binary_cross_entropy", INSIDE),
        ("binary_cross_entropy_with_logits", Real(SHAPE)),
    ):
        samples(
            _name,
            Sample(
                lambda torch, x, y, n=_name, r=_reduction: getattr(torch.nn.functional, n)(
                    x, y, reduction=r
                ),
                _input,
                INSIDE,
                dtypes=("float32",),
            ),
            Sample(
                lambda torch, x, y, z, n=_name, r=_reduction: getattr(torch.nn.functional, n)(
                    x, y, weight=z.detach(), reduction=r
                ),
                _input,
                INSIDE,
                INSIDE,
                dtypes=("float32",),
            ),
        )
    samples(
        "binary_cross_entropy_with_logits",
        Sample(
            lambda torch, x, y, z, r=_reduction: (
                torch.nn.functional.binary_cross_entropy_with_logits(
                    x, y, pos_weight=z.detach(), reduction=r
                )
            ),
            Real(SHAPE, -5, 5),
            INSIDE,
            Real((4,), 0.5, 2),
            dtypes=("float32",),
        ),
    )
    for _log in (False, True):
        samples(
            "kl_div",
            Sample(
                lambda torch, x, y, r=_reduction, log=_log: torch.nn.functional.kl_div(
                    x, y, reduction=r, log_target=log
                ),
                SHAPE,
                INSIDE,
                dtypes=("float32",),
            ),
        )
samples(
    "kl_div",
    Sample(
        lambda torch, x, y: torch.nn.functional.kl_div(x, y, reduction="batchmean"), SHAPE, INSIDE
    ),
)
samples(
    "mse_loss",
    Sample(lambda torch, x, y: torch.nn.functional.mse_loss(x, y), SHAPE, (4,)),
    Sample(
        lambda torch, x, y: torch.nn.functional.mse_loss(x, y, weight=y.detach() ** 2), SHAPE, SHAPE
    ),
    Sample(
        lambda torch, x, y: torch.nn.functional.mse_loss(x, y, size_average=False), SHAPE, SHAPE
    ),
    Sample(lambda torch, x, y: torch.nn.functional.mse_loss(x, y), (), ()),
    Sample(lambda torch, x, y: torch.nn.functional.mse_loss(x, y), (0, 2), (0, 2)),
)
samples(
    "l1_loss",
    Sample(
        lambda torch, x, y: torch.nn.functional.l1_loss(x, y, weight=y.detach() ** 2), SHAPE, SHAPE
    ),
)
wrong(
    "mse_loss",
    Wrong(lambda torch, x, y: torch.nn.functional.mse_loss(x, y, reduction="all"), SHAPE, SHAPE),
    Wrong(lambda torch, x, y: torch.nn.functional.mse_loss(x, y), SHAPE, (5,)),
)
wrong(
    "binary_cross_entropy",
    Wrong(lambda torch, x, y: torch.nn.functional.binary_cross_entropy(x, y), INSIDE, (4,)),
    Wrong(lambda torch, x: torch.nn.functional.binary_cross_entropy(x + 3, x), INSIDE),
)
wrong(
    "binary_cross_entropy_with_logits",
    Wrong(
        lambda torch, x, y: torch.nn.functional.binary_cross_entropy_with_logits(x, y), INSIDE, (4,)
    ),
)

CLASSES, SOME = Fixed([0, 3, 1]), Fixed([0, -100, 1])
IMAGE, MASK = (2, 3, 2, 2), Fixed([[[0, 1], [2, 0]], [[1, 1], [2, -100]]])
WEIGHTS = Fixed([0.5, 1.0, 2.0, 1.5])
for _name in ("nll_loss", "cross_entropy"):
    for _reduction in REDUCTIONS:
        for _target in (CLASSES, SOME):
            samples(
                _name,
                Sample(
                    lambda torch, x, t, n=_name, r=_reduction: getattr(torch.nn.functional, n)(
                        x, t, reduction=r
                    ),
                    SHAPE,
                    _target,
                    dtypes=("float32", "bfloat16"),
                ),
                Sample(
                    lambda torch, x, t, w, n=_name, r=_reduction: getattr(torch.nn.functional, n)(
                        x, t, weight=w.to(x.dtype), reduction=r
                    ),
                    SHAPE,
                    _target,
                    WEIGHTS,
                    dtypes=("float32",),
                ),
            )
        samples(
            _name,
            Sample(
                lambda torch, x, t, n=_name, r=_reduction: getattr(torch.nn.functional, n)(
                    x, t, reduction=r
                ),
                IMAGE,
                MASK,
                dtypes=("float32",),
                strided=False,  # PyTorch refuses it
            ),
        )
    samples(
        _name,
        Sample(
            lambda torch, x, t, n=_name: getattr(torch.nn.functional, n)(x, t),
            (2, 3, 2),
            Fixed([[0, 1], [2, 2]]),
            dtypes=(),
        ),
        Sample(
            lambda torch, x, t, n=_name: getattr(torch.nn.functional, n)(x, t, reduction="none"),
            (2, 3, 2),
            Fixed([[0, 1], [2, 2]]),
            dtypes=(),
        ),
        Sample(
            lambda torch, x, t, n=_name: getattr(torch.nn.functional, n)(x, t),
            (4,),
            Fixed(2),
            dtypes=(),
        ),
        Sample(
            lambda torch, x, t, n=_name: getattr(torch.nn.functional, n)(x, t, ignore_index=3),
            SHAPE,
            CLASSES,
            dtypes=(),
        ),
    )
    wrong(
        _name,
        Wrong(
            lambda torch, x, t, n=_name: getattr(torch.nn.functional, n)(x, t), SHAPE, Fixed([0, 1])
        ),
        Wrong(
            lambda torch, x, t, n=_name: getattr(torch.nn.functional, n)(x, t),
            SHAPE,
            Fixed([0, 9, 1]),
        ),
        Wrong(
            lambda torch, x, t, n=_name: getattr(torch.nn.functional, n)(x, t),
            SHAPE,
            Fixed([0, -1, 1]),
        ),
    )
for _reduction in REDUCTIONS:
    samples(
        "cross_entropy",
        Sample(
            lambda torch, x, t, r=_reduction: torch.nn.functional.cross_entropy(
                x, t, reduction=r, label_smoothing=0.1
            ),
            SHAPE,
            SOME,
            dtypes=("float32",),
        ),
        Sample(
            lambda torch, x, t, w, r=_reduction: torch.nn.functional.cross_entropy(
                x, t, weight=w.to(x.dtype), reduction=r, label_smoothing=0.1
            ),
            SHAPE,
            SOME,
            WEIGHTS,
            dtypes=("float32",),
        ),
        Sample(
            lambda torch, x, t, r=_reduction: torch.nn.functional.cross_entropy(x, t, reduction=r),
            SHAPE,
            INSIDE,
            dtypes=("float32",),
        ),
        Sample(
            lambda torch, x, t, w, r=_reduction: torch.nn.functional.cross_entropy(
                x, t, weight=w.to(x.dtype), reduction=r, label_smoothing=0.2
            ),
            SHAPE,
            INSIDE,
            WEIGHTS,
            dtypes=("float32",),
        ),
    )
