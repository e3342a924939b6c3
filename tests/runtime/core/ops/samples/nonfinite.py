"""Samples in which a number or a gradient is not finite, and must stay so where PyTorch's does."""

from __future__ import annotations

from tests.runtime.core.ops.written import cases

SHAPE = (2, 3)
NAN = "float('nan')"
INF = "float('inf')"


def poisoned(name: str, *texts: str, inputs: int = 1) -> None:
    """Each call at zero, with a NaN as the gradient that arrives at it."""
    each = [f"({text}) * {NAN}" for text in texts]
    cases(name, [SHAPE] * inputs, *each, dtypes=(), order=1)


poisoned(
    "norm",
    "(x * 0).norm()",
    "(x * 0).norm(1)",
    "(x * 0).norm(3)",
    "(x * 0).norm(0.5)",
    f"(x * 0).norm({INF})",
    "(x * 0).norm(dim=1, keepdim=True)",
)
poisoned("pow.Tensor_Tensor", "torch.pow(x * 0, y * y)", inputs=2)
poisoned("pow.Scalar", "torch.pow(0, x * x)", "torch.pow(2, x * x)")
for _number in (INF, f"-{INF}", NAN):
    cases(
        "softmax",
        [()],
        f"F.softmax(x * 0 + {_number}, 0)",
        dtypes=(),
        order=1,
    )
    cases("log_softmax", [()], f"F.log_softmax(x * 0 + {_number}, 0)", dtypes=(), order=1)
    cases(
        "binary_cross_entropy_with_logits",
        [SHAPE, SHAPE],
        f"F.binary_cross_entropy_with_logits(x * 0 + {_number}, y.sigmoid())",
        f"w = (y * y).detach()\n"
        f"F.binary_cross_entropy_with_logits(x * 0 + {_number}, y.sigmoid(), pos_weight=w)",
        dtypes=(),
        order=1,
    )
    cases("logit", [SHAPE], f"torch.logit(x * 0 + {_number}, 0.3)", dtypes=(), order=1)
