"""Samples of equations, determinants and decompositions of matrices.

The matrices are made well conditioned; of vectors whose signs are anybody's choice, what does not
depend on the signs is looked at.
"""

from __future__ import annotations

from tests.runtime.core.ops.written import cases, faults

M, B, V, W = (3, 3), (2, 3, 3), (3,), (3, 2)
COMPLEX = ("complex128",)
SOME = ("float32", "complex128")
I = "torch.eye(3, dtype=x.dtype) * 5"  # noqa: E741
LOOSE = 1000.0

cases("linalg.inv_ex", [M], f"torch.linalg.inv_ex(x + {I})", dtypes=SOME, tolerance=LOOSE)
cases("linalg.inv_ex", [V], "torch.linalg.inv_ex(torch.diag(x) * 0)[1]", dtypes=(), grad=False)
faults("linalg.inv_ex", [M], "torch.linalg.inv_ex(x * 0, check_errors=True)")
for _name in ("linalg.matrix_power", "matrix_power"):
    _texts = [f"torch.{_name}(x + {I}, {n})" for n in (0, 1, 2, 3, 5, -1, -2)]
    cases(_name, [M], *_texts, dtypes=(), tolerance=LOOSE, strided=False)
    faults(_name, [(2, 3)], f"torch.{_name}(x, 2)", f"torch.{_name}(x[0], 2)")
cases(
    "linalg.tensorinv",
    [(6, 6)],
    "torch.linalg.tensorinv(x.view(2, 3, 6))",
    dtypes=(),
    tolerance=LOOSE,
)
faults("linalg.tensorinv", [M], "torch.linalg.tensorinv(x, 0)", "torch.linalg.tensorinv(x, 2)")
cases(
    "linalg.tensorsolve",
    [(6, 2, 3), (6,)],
    "torch.linalg.tensorsolve(x, y)",
    dtypes=(),
    tolerance=LOOSE,
)
faults("linalg.tensorsolve", [M, (2, 2)], "torch.linalg.tensorsolve(x, y)")

cases(
    "linalg.solve",
    [M, W],
    f"torch.linalg.solve(x + {I}, y)",
    f"torch.linalg.solve(x + {I}, y[:, 0])",
    f"torch.linalg.solve(x + {I}, y.mT, left=False)",
    dtypes=COMPLEX,
    tolerance=LOOSE,
)
cases("linalg.solve", [B, W], f"torch.linalg.solve(x + {I}, y)", dtypes=(), tolerance=LOOSE)
cases("linalg.solve_ex", [M, V], f"torch.linalg.solve_ex(x + {I}, y)", dtypes=(), tolerance=LOOSE)
faults(
    "linalg.solve",
    [M],
    "torch.linalg.solve(x * 0, x)",
    "torch.linalg.solve(torch.stack([x, x * 0]), x)",
    "torch.linalg.solve(x[:2], x)",
    "torch.linalg.solve(x, x[:2])",
    "torch.linalg.solve(x, x.float())",
    "torch.linalg.solve(x.half(), x.half())",
    "torch.linalg.solve(x.long(), x.long())",
)
faults("linalg.solve_ex", [M], "torch.linalg.solve_ex(x * 0, x, check_errors=True)")
cases(
    "linalg.solve_triangular",
    [M, W],
    f"torch.linalg.solve_triangular(x + {I}, y, upper=True)",
    f"torch.linalg.solve_triangular(x + {I}, y, upper=False, unitriangular=True)",
    f"torch.linalg.solve_triangular(x + {I}, y.mT, upper=False, left=False)",
    dtypes=COMPLEX,
    tolerance=LOOSE,
)
faults(
    "linalg.solve_triangular",
    [M],
    "torch.linalg.solve_triangular(x, x)",
    "torch.linalg.solve_triangular(x, x[0], upper=True)",
    "torch.linalg.solve_triangular(x[:2], x, upper=True)",
    "torch.linalg.solve_triangular(x.half(), x.half(), upper=True)",
)
cases(
    "cholesky_solve",
    [W, M],
    f"torch.cholesky_solve(x, (y + {I}).tril())",
    f"torch.cholesky_solve(x, (y + {I}).triu(), upper=True)",
    dtypes=COMPLEX,
    tolerance=LOOSE,
)
faults(
    "cholesky_solve",
    [M],
    "torch.cholesky_solve(x[0], x)",
    "torch.cholesky_solve(x[:2], x)",
    "torch.cholesky_solve(x, x[:2])",
    "torch.cholesky_solve(x, x.float())",
)
cases(
    "cholesky_inverse", [M], f"torch.cholesky_inverse((x + {I}).tril())", dtypes=(), tolerance=LOOSE
)
faults("cholesky_inverse", [M], "torch.cholesky_inverse(x[:2])", "torch.cholesky_inverse(x * 0)")
cases(
    "triangular_solve",
    [W, M],
    f"torch.triangular_solve(x, (y + {I}).triu())",
    f"torch.triangular_solve(x, (y + {I}).tril(), False, True)",
    dtypes=(),
    tolerance=LOOSE,
)
faults(
    "triangular_solve", [M], "torch.triangular_solve(x[0], x)", "torch.triangular_solve(x[:2], x)"
)

for _name in ("linalg.det", "linalg.slogdet", "det", "slogdet", "logdet"):
    _call = f"torch.{_name}"
    cases(_name, [M], f"{_call}(x + {I})", dtypes=COMPLEX, tolerance=LOOSE)
    cases(_name, [B], f"{_call}(x.abs() + {I})", dtypes=(), tolerance=LOOSE)
    faults(_name, [M], f"{_call}(x[:2])", f"{_call}(x[0])", f"{_call}(x.half())")
# Of rank 1, with zeros that are exact: of x[:, None] * x rounding chooses the pivots, by processor.
_call = "torch.linalg.det(torch.diag(x * torch.tensor([1.0, 0.0, 0.0])))"
cases("linalg.det", [V], _call, dtypes=(), order=1, tolerance=LOOSE)

for _name in ("linalg.cholesky", "linalg.cholesky_ex", "cholesky"):
    _call = f"torch.{_name}"
    cases(
        _name,
        [B],
        f"{_call}(x @ x.mH + {I})",
        f"{_call}(x @ x.mH + {I}, upper=True)",
        dtypes=COMPLEX,
        tolerance=LOOSE,
    )
    faults(_name, [M], f"{_call}(x[:2])", f"{_call}(x[0])", f"{_call}(x.half())")
for _name in ("linalg.cholesky", "cholesky"):
    _call = f"torch.{_name}"
    faults(_name, [B], f"{_call}(x @ x.mH - {I})", f"{_call}(torch.eye(3) - 2 * torch.ones(3, 3))")
cases("linalg.qr", [M, (4, 3)], f"torch.linalg.qr(x + {I})[1].abs()", dtypes=(), tolerance=LOOSE)
cases(
    "linalg.qr",
    [(4, 3)],
    "torch.linalg.qr(x).Q.abs()",
    "torch.linalg.qr(x.mT).R.abs()",
    dtypes=(),
    tolerance=LOOSE,
)
cases("qr", [M], f"torch.qr(x + {I})[1].abs()", dtypes=(), tolerance=LOOSE)
faults(
    "linalg.qr",
    [(4, 3)],
    "torch.linalg.qr(x[0])",
    "torch.linalg.qr(x, 'what')",
    "torch.linalg.qr(x.half())",
    "torch.linalg.qr(x, 'r').R.sum().backward()",
    "torch.linalg.qr(x, 'complete').R.sum().backward()",
)
for _name, _part in (("linalg.svd", "U"), ("svd", "U")):
    _call = f"torch.{_name}"
    cases(
        _name,
        [(4, 3)],
        f"{_call}(x)[1]",
        f"{_call}(x).{_part}.abs()[:, :3]",
        dtypes=(),
        tolerance=LOOSE,
    )
    faults(_name, [M], f"{_call}(x[0])", f"{_call}(x / 0)", f"{_call}(x.half())")
cases("linalg.svdvals", [(4, 3)], "torch.linalg.svdvals(x)", dtypes=SOME, tolerance=LOOSE)
faults("linalg.svdvals", [V], "torch.linalg.svdvals(x)")
cases(
    "linalg.eigh",
    [M],
    "torch.linalg.eigh(x + x.mT)[0]",
    "torch.linalg.eigh(x + x.mT, 'U').eigenvectors.abs()",
    dtypes=(),
    tolerance=LOOSE,
    strided=False,
)
cases(
    "linalg.eigvalsh", [M], "torch.linalg.eigvalsh(x + x.mT.conj())", dtypes=SOME, tolerance=LOOSE
)
cases("linalg.eig", [M], "torch.linalg.eig(x)[1].abs()", dtypes=(), tolerance=LOOSE)
cases("linalg.eigvals", [M], "torch.linalg.eigvals(x)", dtypes=(), tolerance=LOOSE)
for _name in ("eigh", "eigvalsh", "eig", "eigvals"):
    _call = f"torch.linalg.{_name}"
    faults(f"linalg.{_name}", [M], f"{_call}(x[:2])", f"{_call}(x[0])", f"{_call}(x.half())")
faults("linalg.eigh", [M], "torch.linalg.eigh(x, 'X')", "torch.linalg.eigh(x / 0)")
faults("linalg.eig", [M], "torch.linalg.eig(x / 0)")

for _name in ("linalg.lu_factor", "linalg.lu_factor_ex", "lu"):
    cases(_name, [M], f"torch.{_name}(x)", dtypes=COMPLEX, tolerance=LOOSE)
    faults(_name, [M], f"torch.{_name}(x[0])", f"torch.{_name}(x, pivot=False)")
cases("linalg.lu_factor", [(3, 4)], "torch.linalg.lu_factor(x)", dtypes=(), tolerance=LOOSE)
cases("linalg.lu_factor", [(4, 3)], "torch.linalg.lu_factor(x)", dtypes=(), tolerance=LOOSE)
faults("linalg.lu_factor", [M], "torch.linalg.lu_factor(x * 0)", "torch.linalg.lu_factor(x.half())")
cases("linalg.lu", [(2, 3, 4)], "torch.linalg.lu(x)", dtypes=(), tolerance=LOOSE)
faults("linalg.lu", [V], "torch.linalg.lu(x)")
cases(
    "linalg.lu_solve",
    [M, W],
    "torch.linalg.lu_solve(*torch.linalg.lu_factor(x), y)",
    "torch.linalg.lu_solve(*torch.linalg.lu_factor(x), y.mT, left=False, adjoint=True)",
    dtypes=COMPLEX,
    tolerance=LOOSE,
)
faults(
    "linalg.lu_solve",
    [M],
    "torch.linalg.lu_solve(x, torch.tensor([1, 2], dtype=torch.int32), x)",
    "torch.linalg.lu_solve(x[:2], torch.tensor([1, 2], dtype=torch.int32), x)",
    "torch.linalg.lu_solve(x, torch.tensor([1, 2, 9], dtype=torch.int32), x)",
)
cases(
    "lu_solve", [M, W], "torch.lu_solve(y, *torch.linalg.lu_factor(x))", dtypes=(), tolerance=LOOSE
)
cases(
    "lu_unpack", [(3, 4)], "torch.lu_unpack(*torch.linalg.lu_factor(x))", dtypes=(), tolerance=LOOSE
)
faults("lu_unpack", [M], "torch.lu_unpack(x, x[0])")
