"""Samples of norms, products, reflections, pseudo-inverses, and of short Fourier transforms."""

from __future__ import annotations

from tests.runtime.core.ops.written import cases, faults
from tests.runtime.oracle import Fixed

M, T, V = (3, 3), (4, 3), (3,)
I = "torch.eye(3, dtype=x.dtype) * 5"  # noqa: E741
LOOSE = 1000.0


def loose(name: str, inputs: list[object], *texts: str, **options: object) -> None:
    """Cases of float64 only, unless said otherwise."""
    cases(name, inputs, *texts, **{"dtypes": (), "tolerance": LOOSE, **options})  # type: ignore[arg-type]


loose(
    "linalg.matrix_norm",
    [T],
    *(
        f"torch.linalg.matrix_norm(x, {p})"
        for p in ("'fro'", "'nuc'", 2, -2, 1, -1, "float('inf')")
    ),
    "torch.linalg.matrix_norm(x[None], 2, (0, 2), keepdim=True)",
    strided=False,
)
faults(
    "linalg.matrix_norm",
    [M],
    "torch.linalg.matrix_norm(x[0])",
    "torch.linalg.matrix_norm(x, 3)",
    "torch.linalg.matrix_norm(x, 'what')",
    "torch.linalg.matrix_norm(x, dim=(0, 0))",
    "torch.linalg.matrix_norm(x, dtype=torch.float32)",
    "torch.linalg.matrix_norm(x.long())",
)
loose(
    "linalg.norm",
    [M],
    "torch.linalg.norm(x)",
    "torch.linalg.norm(x, 1)",
    "torch.linalg.norm(x, 3, dim=0)",
)
faults(
    "linalg.norm",
    [M],
    "torch.linalg.norm(x[None], 2)",
    "torch.linalg.norm(x, dim=(0, 1, 2))",
    "torch.linalg.norm(x, 3)",
    "torch.linalg.norm(x[0], 'nuc')",
)
loose("linalg.cond", [M], *(f"torch.linalg.cond(x + {I}, {p})" for p in (None, -2, "'nuc'")))
loose(
    "linalg.cond",
    [M],
    f"torch.linalg.cond(x + {I}, 'fro')",
    "torch.linalg.cond(x * 0, 1)",
    grad=False,
)
faults(
    "linalg.cond",
    [(2, 3)],
    "torch.linalg.cond(x, 1)",
    "torch.linalg.cond(x, 3)",
    "torch.linalg.cond(x[0])",
)
loose(
    "linalg.matrix_rank",
    [V],
    "torch.linalg.matrix_rank(x[:, None] * x)",
    "torch.linalg.matrix_rank(x[:, None] + x, 1.5)",
    grad=False,
)
faults(
    "linalg.matrix_rank",
    [V],
    "torch.linalg.matrix_rank(x)",
    "torch.linalg.matrix_rank(x.long()[None])",
)
loose("linalg.pinv", [T], "torch.linalg.pinv(x)", "torch.linalg.pinv(x.mT)")
loose("linalg.pinv", [M], f"torch.linalg.pinv(x + x.mT + {I}, hermitian=True)")
loose("pinverse", [T], "torch.pinverse(x)")
faults("linalg.pinv", [V], "torch.linalg.pinv(x)", "torch.linalg.pinv(x[None].long())")
loose(
    "linalg.lstsq",
    [T, (4, 2)],
    "torch.linalg.lstsq(x, y)",
    "torch.linalg.lstsq(x, y[:, 0])",
    strided=False,
)
loose(
    "linalg.lstsq", [T, (4, 2)], "torch.linalg.lstsq(x, y, driver='gelsd')", order=1, strided=False
)
faults(
    "linalg.lstsq",
    [M],
    "torch.linalg.lstsq(x[0], x[0])",
    "torch.linalg.lstsq(x, x[:2])",
    "torch.linalg.lstsq(x, x, driver='what')",
    "torch.linalg.lstsq(x, x.float())",
)
loose("linalg.householder_product", [T, (2,)], "torch.linalg.householder_product(x, y)", order=1)
loose("orgqr", [T, (2,)], "torch.orgqr(x, y)", order=1)
faults(
    "linalg.householder_product",
    [M],
    "torch.linalg.householder_product(x[0], x[0])",
    "torch.linalg.householder_product(x[:2], x[0])",
    "torch.linalg.householder_product(x, x)",
)
loose("ormqr", [T, V, (4, 2)], "torch.ormqr(x, y, z)", "torch.ormqr(x, y, z.mT, False, True)")
faults("ormqr", [M], "torch.ormqr(x, x[0], x[:2])", "torch.ormqr(x[0], x[0], x)")
loose("geqrf", [T], "torch.geqrf(x)[0].abs()", "torch.geqrf(x).tau", grad=False)
faults("geqrf", [V], "torch.geqrf(x)")
for _name in ("ldl_factor", "ldl_factor_ex"):
    loose(f"linalg.{_name}", [M], f"torch.linalg.{_name}(x + x.mT)", grad=False)
    faults(f"linalg.{_name}", [(2, 3)], f"torch.linalg.{_name}(x)")
loose(
    "linalg.ldl_solve",
    [M, V],
    "torch.linalg.ldl_solve(*torch.linalg.ldl_factor(x), y[:, None])",
    grad=False,
)
faults(
    "linalg.ldl_solve",
    [M],
    "torch.linalg.ldl_solve(x, torch.tensor([1, 2]), x)",
    "torch.linalg.ldl_solve(x, torch.tensor([1, 2, 3]), x[:2])",
)

loose("linalg.cross", [(2, 3), (2, 3)], "torch.linalg.cross(x, y)", dtypes=("complex128", "int64"))
loose("cross", [(3, 2), (3, 2)], "torch.cross(x, y)", "x.cross(y, 0)")
faults("linalg.cross", [(3, 2)], "torch.linalg.cross(x, x)", "torch.linalg.cross(x, x[0])")
faults("cross", [(4, 2)], "torch.cross(x, x)")
loose(
    "addbmm",
    [(2, 4), (3, 2, 5), (3, 5, 4)],
    "torch.addbmm(x, y, z)",
    "x.addbmm(y, z, beta=2, alpha=3)",
    dtypes=("float32",),
    grad=False,
)
loose("addbmm_", [(2, 4), (3, 2, 5), (3, 5, 4)], "x.mul(1).addbmm_(y, z)", grad=False)
faults("addbmm", [M], "torch.addbmm(x, x, x)", "torch.addbmm(x, x[None], x[None, :2])")
for _name in ("linalg.matrix_exp", "matrix_exp"):
    loose(_name, [M], f"torch.{_name}(x)", dtypes=("complex128",))
    faults(_name, [(2, 3)], f"torch.{_name}(x)", f"torch.{_name}(x[0])")
loose("kron", [(2, 3), V], "torch.kron(x, y)", "x.kron(y)", strided=False)
faults("kron", [V], "torch.kron(x, 2)")
loose(
    "linalg.vecdot",
    [(2, 3), (2, 3)],
    "torch.linalg.vecdot(x, y)",
    "torch.linalg.vecdot(x[0], y[0])",
)
faults(
    "linalg.vecdot",
    [V],
    "torch.linalg.vecdot(x, x.float())",
    "torch.linalg.vecdot(x.long(), x.long())",
)
loose("linalg.matmul", [M, V], "torch.linalg.matmul(x, y)")
loose("linalg.diagonal", [(2, 3, 4)], "torch.linalg.diagonal(x, offset=1)")
loose(
    "linalg.multi_dot",
    [(2, 3), M, V],
    "torch.linalg.multi_dot([x, y, z])",
    "torch.linalg.multi_dot([x, y, y, z])",
    strided=False,
)
faults(
    "linalg.multi_dot",
    [M],
    "torch.linalg.multi_dot([x])",
    "torch.linalg.multi_dot([x, x[:2], x])",
    "torch.linalg.multi_dot([x, x.float()])",
    "torch.linalg.multi_dot([x, x[None], x])",
)
loose("linalg.vander", [V], "torch.linalg.vander(x, N=4)")
faults("linalg.vander", [V], "torch.linalg.vander(x, N=1)", "torch.linalg.vander(x > 0)")
loose("vander", [V], "torch.vander(x)", "torch.vander(x, 4, True)", grad=False)
faults("vander", [M], "torch.vander(x)")
loose(
    "cov",
    [T, Fixed([1, 2, 3])],
    "torch.cov(x)",
    "x.cov(correction=0, fweights=y)",
    "torch.cov(x[0])",
    dtypes=("complex128",),
    strided=False,
)
faults(
    "cov",
    [M],
    "torch.cov(x[None])",
    "torch.cov(x > 0)",
    "torch.cov(x, fweights=x[0])",
    "torch.cov(x, aweights=x[0, :2])",
)
loose("corrcoef", [T], "torch.corrcoef(x)", "x[0].corrcoef()", strided=False)
faults("corrcoef", [M], "torch.corrcoef(x[None])")

loose(
    "stft",
    [(40,)],
    "torch.stft(x, 8, return_complex=True)",
    "torch.stft(x, 8, 3, 6, x[:6].detach(), False, normalized=True, return_complex=True)",
    strided=False,
)
faults(
    "stft",
    [(40,)],
    "torch.stft(x, 8)",
    "torch.stft(x, 8, 0, return_complex=True)",
    "torch.stft(x, 8, win_length=9, return_complex=True)",
    "torch.stft(x, 8, window=x[:3], return_complex=True)",
)
loose(
    "istft",
    [(5, 9), (5, 9)],
    "torch.istft(torch.complex(x, y), 8)",
    "torch.istft(torch.complex(x, y), 8, length=20)",
    strided=False,
)
faults(
    "istft",
    [(5, 9)],
    "torch.istft(x, 8)",
    "torch.istft(x + 0j, 10)",
    "torch.istft(x + 0j, 8, window=torch.zeros(8))",
)
for _name in ("symeig", "eig", "solve", "lstsq"):
    faults(
        _name, [M], f"torch.{_name}(x, x)" if _name in {"solve", "lstsq"} else f"torch.{_name}(x)"
    )
faults("matrix_rank", [M], "torch.matrix_rank(x)")
