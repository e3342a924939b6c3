"""The iteration: a basis of the best vectors, their last directions, and their residuals."""

from __future__ import annotations

from typing import Any

import gradscope.runtime as torch
from gradscope.runtime import _linalg_utils as linalg
from gradscope.runtime._lobpcg import orthogonal

# Note [What an iteration keeps] X are the present vectors, R = A X - B X E their residuals, P the
# directions of their last change, W the preconditioned residuals. S holds X, P and W side by side:
# each step solves the small problem Sᵀ A S and takes the best n combinations of S. The first `nc`
# columns have converged and are left unchanged. "basic" makes S orthonormal by a Cholesky
# factorization in each step; "ortho" keeps it so.


class LOBPCG:
    """One matrix, the present vectors, and the numbers of the iteration by name."""

    def __init__(
        self,
        A: Any,
        B: Any,
        X: Any,
        iK: Any,
        iparams: dict[str, int],
        fparams: dict[str, float],
        bparams: dict[str, bool],
        method: str,
        tracker: Any,
    ) -> None:
        self.A, self.B, self.iK = A, B, iK
        self.iparams, self.fparams, self.bparams = iparams, fparams, bparams
        self.method, self.tracker = method, tracker
        m, n = iparams["m"], iparams["n"]
        of_X = {"dtype": X.dtype, "device": X.device}
        self.X = X
        self.E = torch.zeros((n,), **of_X)
        self.R = torch.zeros((m, n), **of_X)
        self.S = torch.zeros((m, 3 * n), **of_X)
        self.tvars: dict[str, Any] = {}
        self.ivars: dict[str, int] = {"istep": 0}
        self.fvars: dict[str, float] = {"_": 0.0}
        self.bvars: dict[str, bool] = {"_": False}

    def __str__(self) -> str:
        names = ("iparams", "fparams", "bparams", "ivars", "fvars", "bvars", "tvars", "A", "B")
        lines = [f"  {name}={getattr(self, name)}\n" for name in (*names, "iK", "X", "E")]
        return "".join(["LOBPCG:\n", *lines])

    def run(self) -> None:
        """Iterate until stopped."""
        self._step()
        while not self.stop_iteration():
            self._step()

    def _step(self) -> None:
        self.update()
        if self.tracker is not None:
            self.call_tracker()

    def call_tracker(self) -> None:
        """Call the tracker after a step."""
        self.tracker(self)

    def stop_iteration(self) -> bool:
        """Whether the tracker stopped it, no steps are left, or enough pairs have converged."""
        return bool(
            self.bvars.get("force_stop", False)
            or self.ivars["iterations_left"] == 0
            or self.ivars["converged_count"] >= self.iparams["k"]
        )

    def update(self) -> None:
        """Do one step."""
        if self.ivars["istep"] == 0:
            self._measure()
        if self.method == "ortho":
            self._update_ortho()
        else:
            self._update_basic()
        self.ivars["iterations_left"] -= 1
        self.ivars["istep"] += 1

    def _measure(self) -> None:
        """Estimate the norms of A and B from the first vectors."""
        norm = float(torch.norm(self.X))
        scale = norm**-1
        self.fvars["X_norm"] = norm
        self.fvars["A_norm"] = float(torch.norm(linalg.matmul(self.A, self.X))) * scale
        self.fvars["B_norm"] = float(torch.norm(linalg.matmul(self.B, self.X))) * scale
        self.ivars["iterations_left"] = self.iparams["niter"]
        self.ivars["converged_count"] = self.ivars["converged_end"] = 0

    def update_residual(self) -> None:
        """Recompute the residuals."""
        self.R = linalg.matmul(self.A, self.X) - linalg.matmul(self.B, self.X) * self.E

    def update_converged_count(self) -> int:
        """The number of converged pairs: the first ones, up to one that has not."""
        before = self.ivars["converged_count"]
        X = self.X
        size = self.fvars["A_norm"] + torch.abs(self.E[: X.shape[-1]]) * self.fvars["B_norm"]
        error = torch.norm(self.R, 2, (0,)) / (torch.norm(X, 2, (0,)) * size)
        converged = [bool(each) for each in error < self.fparams["tol"]]
        count = [*converged, False].index(False)
        if count < before:
            raise AssertionError(
                f"the number of converged eigenpairs (was {before}, got {count}) cannot decrease"
            )
        self.ivars["converged_count"] = count
        self.tvars["rerr"] = error
        return count

    def _update_basic(self) -> None:
        n = self.iparams["n"]
        if self.ivars["istep"] == 0:
            values, mixed, _ = self._best_mixture(self.X)
            self.X[:] = torch.matmul(self.X, mixed)
            self.E[:] = values
            P = None
        else:
            nc = self.ivars["converged_count"]
            S = self.S[:, nc : self.ivars["converged_end"]]
            values, _, (root, Z) = self._best_mixture(S)
            self.X[:, nc:] = torch.matmul(S, torch.matmul(root, Z[:, : n - nc]))
            self.E[nc:] = values[: n - nc]
            P = torch.matmul(S, torch.matmul(root, Z[:, n : 2 * n - nc]))
        self.update_residual()
        nc = self.update_converged_count()
        end = self._put_aside(P)
        self._put_last(end, linalg.matmul(self.iK, self.R[:, nc:] if P is not None else self.R))

    def _update_ortho(self) -> None:
        n = self.iparams["n"]
        if self.ivars["istep"] == 0:
            _, mixed, _ = self._best_mixture(self.X)
            self.X = torch.matmul(self.X, mixed)
            self.update_residual()
            self.update_converged_count()
            end = self._put_aside(None)
            self._put_last(end, self._get_ortho(self.R, self.X))
            return
        nc = self.ivars["converged_count"]
        S = self.S[:, nc : self.ivars["converged_end"]]
        values, Z = linalg.symeig(linalg.qform(self.A, S), self.bparams["largest"])
        self.X[:, nc:] = torch.matmul(S, Z[:, : n - nc])
        self.E[nc:] = values[: n - nc]
        moved = linalg.basis(Z[: n - nc, n - nc :].mT)
        P = torch.matmul(S, torch.matmul(Z[:, n - nc :], moved))
        self.update_residual()
        nc = self.update_converged_count()
        end = self._put_aside(P)
        self._put_last(end, self._get_ortho(self.R[:, nc:], self.S[:, :end]))

    def _best_mixture(self, S: Any) -> tuple[Any, Any, tuple[Any, Any]]:
        """The small problem of these columns: its values, and coefficients of its vectors in S."""
        root = self._get_rayleigh_ritz_transform(S)
        small = linalg.qform(linalg.qform(self.A, S), root)
        values, Z = linalg.symeig(small, self.bparams["largest"])
        return values, torch.matmul(root, Z), (root, Z)

    def _put_aside(self, P: Any) -> int:
        """Copy X and P to the front of S. Returns their end."""
        n = self.iparams["n"]
        self.S[:, :n] = self.X
        if P is None:
            return n
        end = n + int(P.shape[-1])
        self.S[:, n:end] = P
        return end

    def _put_last(self, start: int, W: Any) -> None:
        end = self.ivars["converged_end"] = start + int(W.shape[-1])
        self.S[:, start:end] = W

    def _get_rayleigh_ritz_transform(self, S: Any) -> Any:
        return orthogonal.root_of_inverse(self.B, S)

    def _get_svqb(self, U: Any, drop: bool, tau: float) -> Any:
        return orthogonal.orthonormal(self.B, U, tau, drop=drop)

    def _get_ortho(self, U: Any, V: Any) -> Any:
        return orthogonal.orthonormal_beside(self, U, V)
