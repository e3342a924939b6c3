"""Return types of operations with several results: named tuples."""

from __future__ import annotations

from collections import namedtuple
from typing import Any


def _made(name: str, *fields: str) -> Any:
    """A return type of this name, with PyTorch's repr."""

    def shown(self: Any) -> str:
        inner = ",\n".join(f"{field}={getattr(self, field)!r}" for field in fields)
        return f"torch.return_types.{name}(\n{inner})"

    body = {"__slots__": (), "__repr__": shown, "__module__": "torch.return_types"}
    return type(name, (namedtuple(name, fields),), body)


sort = _made("sort", "values", "indices")
topk = _made("topk", "values", "indices")
kthvalue = _made("kthvalue", "values", "indices")
median = _made("median", "values", "indices")
nanmedian = _made("nanmedian", "values", "indices")
mode = _made("mode", "values", "indices")
max = _made("max", "values", "indices")
min = _made("min", "values", "indices")
cummax = _made("cummax", "values", "indices")
cummin = _made("cummin", "values", "indices")
aminmax = _made("aminmax", "min", "max")
slogdet = _made("slogdet", "sign", "logabsdet")
histogram = _made("histogram", "hist", "bin_edges")
histogramdd = _made("histogramdd", "hist", "bin_edges")
frexp = _made("frexp", "mantissa", "exponent")

linalg_cholesky_ex = _made("linalg_cholesky_ex", "L", "info")
linalg_eig = _made("linalg_eig", "eigenvalues", "eigenvectors")
linalg_eigh = _made("linalg_eigh", "eigenvalues", "eigenvectors")
linalg_inv_ex = _made("linalg_inv_ex", "inverse", "info")
linalg_ldl_factor = _made("linalg_ldl_factor", "LD", "pivots")
linalg_ldl_factor_ex = _made("linalg_ldl_factor_ex", "LD", "pivots", "info")
linalg_lstsq = _made("linalg_lstsq", "solution", "residuals", "rank", "singular_values")
linalg_lu = _made("linalg_lu", "P", "L", "U")
linalg_lu_factor = _made("linalg_lu_factor", "LU", "pivots")
linalg_lu_factor_ex = _made("linalg_lu_factor_ex", "LU", "pivots", "info")
linalg_qr = _made("linalg_qr", "Q", "R")
linalg_slogdet = _made("linalg_slogdet", "sign", "logabsdet")
linalg_solve_ex = _made("linalg_solve_ex", "result", "info")
linalg_svd = _made("linalg_svd", "U", "S", "Vh")
geqrf = _made("geqrf", "a", "tau")
lu_unpack = _made("lu_unpack", "P", "L", "U")
qr = _made("qr", "Q", "R")
svd = _made("svd", "U", "S", "V")
triangular_solve = _made("triangular_solve", "solution", "cloned_coefficient")
