"""What a program may listen to: tensors, nodes, leaves; and what it does when it hears."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.programs.functions import shown


class Listening:
    """The hooks of one run of a program: their handles, and what they heard, in order."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.log: list[Any] = []
        self.handles: list[Any] = []
        self.nested = 0

    def hook(self, kind: str, x: Any, leaves: list[Any]) -> None:
        """Register one more hook."""
        where, what = HOOKS[kind]
        label = len(self.handles)
        if where == "tensor":
            x.grad_fn  # noqa: B018  (PyTorch crashes on hooks on a view that has to ask for its own)
            self.handles.append(x.register_hook(self._heard(what, label, x, leaves)))
        elif where == "kept":
            x.grad_fn  # noqa: B018
            if x.output_nr == 0:  # PyTorch crashes when such a tensor is written to later
                x.retain_grad()
        elif where == "leaf":
            self.handles.append(
                x.register_post_accumulate_grad_hook(self._accumulated(what, label))
            )
        elif where == "before" and x.grad_fn is not None:
            self.handles.append(x.grad_fn.register_prehook(self._before(what, label)))
        elif x.grad_fn is not None:
            self.handles.append(x.grad_fn.register_hook(self._after(what, label)))

    def remove(self, far: int) -> None:
        if self.handles:
            self.handles[-1 - far % len(self.handles)].remove()

    def _heard(self, what: str, label: int, x: Any, leaves: list[Any]) -> Callable[[Any], Any]:
        def heard(grad: Any) -> Any:
            self.log.append(("tensor", label, what, self.torch.is_grad_enabled(), *shown((grad,))))
            if what == "fails":
                raise LookupError("a hook that fails")
            if what == "once":
                self.handles[label].remove()
            if what == "all gone":
                for handle in self.handles:
                    handle.remove()
            if what == "inner" and grad is not None:
                self._backward_inside(grad, leaves)
            if grad is None or what not in ("scales", "narrows"):
                return None
            return grad * 2 if what == "scales" else grad.reshape(-1)[:1]

        return heard

    def _backward_inside(self, grad: Any, leaves: list[Any]) -> None:
        """A small backward into the program's own leaves."""
        self.nested += 1
        found = [leaf for leaf in leaves if leaf.requires_grad and leaf.is_leaf]
        if self.nested > 4 or not found:
            return
        with self.torch.enable_grad():
            (found[0] * grad.detach().sum()).sum().backward()

    def _accumulated(self, what: str, label: int) -> Callable[[Any], Any]:
        def accumulated(leaf: Any) -> Any:
            self.log.append(("leaf", label, what, leaf.requires_grad, *shown((leaf.grad,))))
            if what == "clears":
                leaf.grad = None
            if what == "steps" and leaf.grad is not None:
                with self.torch.no_grad():
                    leaf.sub_(leaf.grad, alpha=0.1)
            return leaf.detach() if what == "returns" else None

        return accumulated

    def _before(self, what: str, label: int) -> Callable[[Any], Any]:
        def before(grads: Any) -> Any:
            self.log.append(("before", label, what, *shown(grads)))
            if what == "scales":
                return tuple(g if g is None else g * 2 for g in grads)
            return {"drops": (None,) * len(grads), "wrong": list(grads)}.get(what)

        return before

    def _after(self, what: str, label: int) -> Callable[[Any, Any], Any]:
        def after(made: Any, given: Any) -> Any:
            self.log.append(("after", label, what, shown(made), shown(given)))
            if what == "scales":
                return tuple(g if g is None else g * 2 for g in made)
            return {"drops": (None,) * len(made), "wrong": (*made, None)}.get(what)

        return after


HOOKS: dict[str, tuple[str, str]] = {
    "looks": ("tensor", "looks"),
    "scales": ("tensor", "scales"),
    "narrows": ("tensor", "narrows"),
    "once": ("tensor", "once"),
    "all gone": ("tensor", "all gone"),
    "fails": ("tensor", "fails"),
    "inner": ("tensor", "inner"),
    "kept": ("kept", ""),
    "after a leaf": ("leaf", "looks"),
    "clears a leaf": ("leaf", "clears"),
    "steps": ("leaf", "steps"),
    "returns": ("leaf", "returns"),
    "before": ("before", "looks"),
    "before, scales": ("before", "scales"),
    "before, drops": ("before", "drops"),
    "before, wrong": ("before", "wrong"),
    "after": ("after", "looks"),
    "after, scales": ("after", "scales"),
    "after, drops": ("after", "drops"),
    "after, wrong": ("after", "wrong"),
}
