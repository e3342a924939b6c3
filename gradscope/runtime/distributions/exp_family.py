"""Exponential families, whose entropy follows from the log normalizer."""

from __future__ import annotations

from typing import Any

import gradscope.runtime as torch
from gradscope.runtime.distributions.distribution import Distribution


class ExponentialFamily(Distribution):
    """Densities exp(parameter · statistic - log normalizer), times a carrier."""

    @property
    def _natural_params(self) -> Any:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Any:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError

    def entropy(self) -> Any:
        """The entropy, by the gradients of the log normalizer."""
        params = [p.detach().requires_grad_() for p in self._natural_params]
        normalizer = self._log_normalizer(*params)
        grads = torch.autograd.grad(normalizer.sum(), params, create_graph=True)
        result = normalizer - self._mean_carrier_measure
        for param, grad in zip(params, grads, strict=True):
            result = result - (param * grad).reshape((*self._batch_shape, -1)).sum(-1)
        return result
