"""The Dirichlet distribution."""

from __future__ import annotations

from typing import Any

import gradscope.runtime as torch
from gradscope.runtime.core.autograd.custom.function import once_differentiable
from gradscope.runtime.distributions import constraints
from gradscope.runtime.distributions.exp_family import ExponentialFamily


class _Dirichlet(torch.autograd.Function):  # type: ignore[misc]
    """Samples with gradients by their concentrations."""

    @staticmethod
    def forward(ctx: Any, concentration: Any) -> Any:
        x = torch._sample_dirichlet(concentration)
        ctx.save_for_backward(x, concentration)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Any) -> Any:
        x, concentration = ctx.saved_tensors
        total = concentration.sum(-1, True).expand_as(concentration)
        moved = torch._dirichlet_grad(x, concentration, total)
        return moved * (grad_output - (x * grad_output).sum(-1, True))


class Dirichlet(ExponentialFamily):
    """Shares of a whole, which sum to one."""

    arg_constraints = {  # noqa: RUF012
        "concentration": constraints.independent(constraints.positive, 1)
    }
    support = constraints.simplex
    has_rsample = True
    batched = ()
    evented = ("concentration",)

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return _Dirichlet.apply(self.concentration.expand(shape))

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        powers = torch.xlogy(self.concentration - 1.0, value).sum(-1)
        whole = torch.lgamma(self.concentration.sum(-1))
        return powers + whole - torch.lgamma(self.concentration).sum(-1)

    @property
    def mean(self) -> Any:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Any:
        less = (self.concentration - 1).clamp(min=0.0)
        mode = less / less.sum(-1, True)
        corners = (self.concentration < 1).all(dim=-1)
        best = mode[corners].argmax(dim=-1)
        mode[corners] = torch.nn.functional.one_hot(best, less.shape[-1]).to(mode)
        return mode

    @property
    def variance(self) -> Any:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def entropy(self) -> Any:
        count = self.concentration.size(-1)
        total = self.concentration.sum(-1)
        whole = torch.lgamma(self.concentration).sum(-1) - torch.lgamma(total)
        whole = whole - (count - total) * torch.digamma(total)
        return whole - ((self.concentration - 1.0) * torch.digamma(self.concentration)).sum(-1)

    @property
    def _natural_params(self) -> Any:
        return (self.concentration,)

    def _log_normalizer(self, x: Any) -> Any:
        return x.lgamma().sum(-1) - torch.lgamma(x.sum(-1))
