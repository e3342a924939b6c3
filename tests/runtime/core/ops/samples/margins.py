"""Samples of losses of distances and margins."""

from __future__ import annotations

from typing import Any

from tests.runtime.oracle import Fixed, Input, Real, Sample, Wrong, samples, wrong

SHAPE = (3, 4)
SIGNS = Fixed([[1.0, -1.0, 1.0, -1.0], [-1.0, 1.0, 1.0, 1.0], [-1.0, -1.0, 1.0, -1.0]])
ROW_SIGNS = Fixed([1.0, -1.0, 1.0])
POSITIVE_TWO = Real((2,), 0.5, 1)
POSITIVE = Real(SHAPE, 0.2, 3)
CLASSES = Fixed([0, 3, 1])
WEIGHTS = Fixed([0.5, 1.0, 2.0, 1.5])


def losses(name: str, *inputs: Input, **options: Any) -> None:
    """A sample for each reduction. With `signs` the last input is only 1 and -1."""
    order, signs = options.pop("order", 2), options.pop("signs", False)
    for reduction in ("none", "mean", "sum"):

        def call(torch: Any, *given: Any, reduction: str = reduction) -> Any:
            given = (*given[:-1], given[-1].detach().sign()) if signs else given
            return getattr(torch.nn.functional, name)(*given, reduction=reduction, **options)

        samples(name, Sample(call, *inputs, dtypes=("float32",), order=order))


losses("margin_ranking_loss", SHAPE, SHAPE, SIGNS, margin=0.3)
losses("margin_ranking_loss", SHAPE, SHAPE, SIGNS)
losses("hinge_embedding_loss", SHAPE, SIGNS, margin=0.5)
losses("cosine_embedding_loss", SHAPE, SHAPE, ROW_SIGNS, margin=0.2)
losses("triplet_margin_loss", SHAPE, SHAPE, SHAPE, margin=0.7)
losses("triplet_margin_loss", SHAPE, SHAPE, SHAPE, swap=True, p=3)
losses("soft_margin_loss", SHAPE, SHAPE, signs=True)
losses("multilabel_soft_margin_loss", SHAPE, POSITIVE)
losses("multi_margin_loss", SHAPE, CLASSES, order=1)
losses("multi_margin_loss", SHAPE, CLASSES, order=1, p=2, margin=0.5)
losses("poisson_nll_loss", SHAPE, POSITIVE)
losses("poisson_nll_loss", SHAPE, POSITIVE, full=True)
losses("poisson_nll_loss", POSITIVE, POSITIVE, log_input=False, full=True)
losses("gaussian_nll_loss", SHAPE, SHAPE, POSITIVE)
losses("gaussian_nll_loss", SHAPE, SHAPE, POSITIVE, full=True)
samples(
    "multi_margin_loss",
    Sample(
        lambda torch, x, t, w: torch.nn.functional.multi_margin_loss(x, t, weight=w.to(x.dtype)),
        SHAPE,
        CLASSES,
        WEIGHTS,
        dtypes=("float32",),
        order=1,
    ),
    Sample(
        lambda torch, x, t: torch.nn.functional.multi_margin_loss(x, t),
        (4,),
        Fixed(2),
        dtypes=("float32",),
        order=1,
    ),
)
samples(
    "gaussian_nll_loss",
    Sample(
        lambda torch, x, y, v: torch.nn.functional.gaussian_nll_loss(x, y, v),
        SHAPE,
        SHAPE,
        Real((3,), 0.2, 2),
        dtypes=("float32",),
    ),
)
wrong(
    "gaussian_nll_loss",
    Wrong(lambda torch, x: torch.nn.functional.gaussian_nll_loss(x, x, -x * x), (3,)),
    Wrong(lambda torch, x, v: torch.nn.functional.gaussian_nll_loss(x, x, v), SHAPE, POSITIVE_TWO),
)
for _name in ("cosine_similarity", "pairwise_distance"):
    samples(
        _name,
        Sample(
            lambda torch, x, y, n=_name: getattr(torch.nn.functional, n)(x, y),
            SHAPE,
            SHAPE,
            dtypes=("float32",),
        ),
        Sample(lambda torch, x, y, n=_name: getattr(torch, n)(x, y), SHAPE, (1, 4), dtypes=()),
    )
samples(
    "cosine_similarity",
    Sample(lambda torch, x, y: torch.cosine_similarity(x, y, dim=0), SHAPE, SHAPE, dtypes=()),
)
samples(
    "pairwise_distance",
    Sample(
        lambda torch, x, y: torch.pairwise_distance(x, y, p=1, keepdim=True),
        SHAPE,
        SHAPE,
        dtypes=(),
    ),
)
