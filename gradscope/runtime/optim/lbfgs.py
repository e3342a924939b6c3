"""L-BFGS: Newton's method with a Hessian estimated from recent gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradscope.runtime.core.autograd.modes.grad_mode import enable_grad, no_grad
from gradscope.runtime.core.ops.shape.joining import cat
from gradscope.runtime.optim.line_search import Point, Search
from gradscope.runtime.optim.optimizer import Optimizer
from gradscope.runtime.optim.options import checked, scalar


class LBFGS(Optimizer):
    """Several iterations per step, with directions estimated from past steps and gradients."""

    counts = ()

    def __init__(
        self,
        params: Any,
        lr: Any = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        checked(lr=lr)
        super().__init__(
            params,
            {
                "lr": lr,
                "max_iter": max_iter,
                "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
                "tolerance_grad": tolerance_grad,
                "tolerance_change": tolerance_change,
                "history_size": history_size,
                "line_search_fn": line_search_fn,
            },
        )
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def _flat_grad(self) -> Any:
        """All gradients as one vector, zeros for missing ones."""
        parts = []
        for p in self._params:
            part = p.new_zeros(p.numel()) if p.grad is None else p.grad.view(-1)
            parts.append(part.view_as_real().view(-1) if part.is_complex() else part)
        return cat(parts, 0)

    def _move(self, size: Any, direction: Any) -> None:
        """Move the parameters by `size` along the direction."""
        start = 0
        for p in self._params:
            own = p.view_as_real() if p.is_complex() else p
            part = direction[start : start + own.numel()]
            own.add_(part.view_as(own), alpha=_float(size))
            start += own.numel()

    def _evaluate_at(
        self, closure: Callable[[], Any], here: list[Any], size: Any, direction: Any
    ) -> tuple[float, Any]:
        """Loss and gradient at `size` along the direction. The parameters are restored."""
        self._move(size, direction)
        loss = float(closure())
        grad = self._flat_grad()
        for p, before in zip(self._params, here, strict=True):
            p.copy_(before)
        return loss, grad

    @no_grad()
    def step(self, closure: Callable[[], Any]) -> Any:
        """Do several iterations. `closure` recomputes loss and gradients and returns the loss."""
        closure = enable_grad()(closure)
        group = self.param_groups[0]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = closure()
        grad = self._flat_grad()
        state["func_evals"] += 1
        if grad.abs().max() <= group["tolerance_grad"]:
            return first_loss
        run = _Run(self, closure, group, state, float(first_loss), grad)
        run.go()
        state.update(run.kept())
        return first_loss


class _Run:
    """The iterations of one call of `step`."""

    def __init__(
        self,
        optimizer: LBFGS,
        closure: Callable[[], Any],
        group: Any,
        state: Any,
        loss: float,
        grad: Any,
    ) -> None:
        self.optimizer, self.closure = optimizer, closure
        self.group, self.state = group, state
        self.loss, self.grad = loss, grad
        self.lr = scalar(group["lr"])
        self.evaluations = 1
        self.direction, self.size = state.get("d"), state.get("t")
        self.gradient_changes, self.moves = state.get("old_dirs"), state.get("old_stps")
        self.inverses, self.scale = state.get("ro"), state.get("H_diag")
        self.grad_before, self.loss_before = state.get("prev_flat_grad"), state.get("prev_loss")

    def kept(self) -> dict[str, Any]:
        """The state for the next call, under PyTorch's names."""
        return {
            "d": self.direction,
            "t": self.size,
            "old_dirs": self.gradient_changes,
            "old_stps": self.moves,
            "ro": self.inverses,
            "H_diag": self.scale,
            "prev_flat_grad": self.grad_before,
            "prev_loss": self.loss_before,
        }

    def go(self) -> None:
        rounds = 0
        while rounds < self.group["max_iter"]:
            rounds += 1
            self.state["n_iter"] += 1
            self._turn()
            if self.grad_before is None:
                self.grad_before = self.grad.clone()
            else:
                self.grad_before.copy_(self.grad)
            self.loss_before = self.loss
            first = self.state["n_iter"] == 1
            self.size = min(1.0, 1.0 / self.grad.abs().sum()) * self.lr if first else self.lr
            slope = self.grad.dot(self.direction)
            if slope > -self.group["tolerance_change"]:
                return
            at_minimum = self._step(slope, last=rounds == self.group["max_iter"])
            if rounds == self.group["max_iter"] or self._over(at_minimum=at_minimum):
                return

    def _over(self, *, at_minimum: bool) -> bool:
        """Whether to stop: converged, or a limit is reached."""
        tolerance = self.group["tolerance_change"]
        return bool(
            self.evaluations >= self.group["max_eval"]
            or at_minimum
            or self.direction.mul(self.size).abs().max() <= tolerance
            or abs(self.loss - self.loss_before) < tolerance
        )

    def _turn(self) -> None:
        """Compute the next direction."""
        if self.state["n_iter"] == 1:
            self.direction = self.grad.neg()
            self.gradient_changes, self.moves, self.inverses, self.scale = [], [], [], 1
            return
        self._remember()
        count = len(self.gradient_changes)
        along = self.state.setdefault("al", [None] * self.group["history_size"])
        # Two loops over the stored steps multiply the gradient by the inverse of the estimated
        # Hessian, without building a matrix.
        vector = self.grad.neg()
        for i in reversed(range(count)):
            along[i] = self.moves[i].dot(vector) * self.inverses[i]
            vector.add_(self.gradient_changes[i], alpha=_float(-along[i]))
        self.direction = vector = vector.mul(self.scale)
        for i in range(count):
            back = self.gradient_changes[i].dot(vector) * self.inverses[i]
            vector.add_(self.moves[i], alpha=_float(along[i] - back))

    def _remember(self) -> None:
        """Store the last step and its change of the gradient, if the curvature is positive."""
        change = self.grad.sub(self.grad_before)
        move = self.direction.mul(self.size)
        curvature = change.dot(move)
        if not curvature > 1e-10:
            return
        if len(self.gradient_changes) == self.group["history_size"]:
            for remembered in (self.gradient_changes, self.moves, self.inverses):
                remembered.pop(0)
        self.gradient_changes.append(change)
        self.moves.append(move)
        self.inverses.append(1.0 / curvature)
        self.scale = curvature / change.dot(change)

    def _step(self, slope: Any, *, last: bool) -> bool:
        """Move and evaluate there. Returns whether it is a minimum."""
        name, used = self.group["line_search_fn"], 0
        if name is None:
            self.optimizer._move(self.size, self.direction)
            if not last:
                with enable_grad():
                    loss = self.closure()
                self.loss = float(loss)
                self.grad = self.optimizer._flat_grad()
                used = 1
        elif name != "strong_wolfe":
            raise RuntimeError("only 'strong_wolfe' is supported")
        else:
            used = self._search(slope)
        self.evaluations += used
        self.state["func_evals"] += used
        looked = name is not None or not last
        return looked and bool(self.grad.abs().max() <= self.group["tolerance_grad"])

    def _search(self, slope: Any) -> int:
        here = [p.clone() for p in self.optimizer._params]

        def evaluate(size: Any) -> tuple[float, Any]:
            return self.optimizer._evaluate_at(self.closure, here, size, self.direction)

        start = Point(0, self.loss, self.grad, slope)
        search = Search(
            evaluate, self.direction, start, 1e-9, self.group["max_eval"] - self.evaluations
        )
        found = search.found(self.size)
        self.loss, self.grad, self.size = found.loss, found.grad, found.at
        self.optimizer._move(self.size, self.direction)
        return search.evaluations


def _float(value: Any) -> float:
    return float(value)
