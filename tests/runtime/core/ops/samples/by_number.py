"""Samples of the losses of the top module, whose reduction is a number, and of odd names beside."""

from __future__ import annotations

from tests.runtime.core.ops.written import cases, faults

TWO = [(3, 4), (3, 4)]
LOSSES = {
    "binary_cross_entropy_with_logits": "(x, y.sigmoid(), None, None{})",
    "hinge_embedding_loss": "(x, y.sign(), 0.5{})",
    "kl_div": "(x, y.abs(){})",
    "margin_ranking_loss": "(x, y, torch.ones(3, 4), 0.1{})",
    "triplet_margin_loss": "(x, y, x * y, 1.0, 2.0, 1e-06, False{})",
    "cosine_embedding_loss": "(x, y, torch.ones(3), 0.0{})",
}
for name, arguments in LOSSES.items():
    calls = [f"torch.{name}{arguments.format(how)}" for how in ("", ", 0", ", 1", ", 2")]
    cases(name, TWO, *calls, dtypes=())
cases(
    "poisson_nll_loss", TWO, "torch.poisson_nll_loss(x, y.abs(), True, False, 1e-8, 1)", dtypes=()
)

cases("__reversed__", [(3, 4)], "x.__reversed__()", dtypes=())
cases(
    "nonzero_static",
    [(3, 4)],
    "torch.nonzero_static(x > 0, size=3)",
    "x.nonzero_static(size=20, fill_value=7)",
    grad=False,
    dtypes=(),
)
faults("nonzero_static", [(3,)], "torch.nonzero_static(x, size=-1)")
cases(
    "is_set_to",
    [(2, 3)],
    "torch.tensor([x.is_set_to(y) for y in (x, x[:], x.clone(), x.t(), x.t().t())])",
    grad=False,
    dtypes=(),
)
cases(
    "dim_order",
    [(2, 3, 4)],
    "torch.tensor(x.permute(2, 0, 1).dim_order())",
    "torch.tensor(x[:, :1].transpose(0, 2).dim_order())",
    "torch.tensor(x[:1, :, :1].expand(5, 3, 6).dim_order())",
    grad=False,
    dtypes=(),
)
faults("dim_order", [(1, 1)], "x.dim_order(ambiguity_check=True)")
