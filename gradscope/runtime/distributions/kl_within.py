"""Divergences of two distributions of one kind."""

from __future__ import annotations

import math
from typing import Any

import gradscope.runtime as torch
from gradscope.runtime.distributions.bernoulli import Bernoulli
from gradscope.runtime.distributions.beta import Beta
from gradscope.runtime.distributions.binomial import Binomial
from gradscope.runtime.distributions.categorical import Categorical
from gradscope.runtime.distributions.cauchy import Cauchy
from gradscope.runtime.distributions.continuous_bernoulli import ContinuousBernoulli
from gradscope.runtime.distributions.dirichlet import Dirichlet
from gradscope.runtime.distributions.exp_family import ExponentialFamily
from gradscope.runtime.distributions.exponential import Exponential
from gradscope.runtime.distributions.gamma import Gamma
from gradscope.runtime.distributions.geometric import Geometric
from gradscope.runtime.distributions.gumbel import Gumbel
from gradscope.runtime.distributions.half_normal import HalfNormal
from gradscope.runtime.distributions.independent import Independent
from gradscope.runtime.distributions.kl import kl_divergence, register_kl
from gradscope.runtime.distributions.laplace import Laplace
from gradscope.runtime.distributions.multivariate_normal import (
    MultivariateNormal,
    squared_length,
)
from gradscope.runtime.distributions.normal import Normal
from gradscope.runtime.distributions.one_hot_categorical import OneHotCategorical
from gradscope.runtime.distributions.pareto import Pareto
from gradscope.runtime.distributions.poisson import Poisson
from gradscope.runtime.distributions.transformed_distribution import TransformedDistribution
from gradscope.runtime.distributions.uniform import Uniform
from gradscope.runtime.distributions.utils import euler_constant, sum_rightmost


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Any:
    softplus = torch.nn.functional.softplus
    yes = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    yes[q.probs == 0] = math.inf
    yes[p.probs == 0] = 0
    no = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    no[q.probs == 1] = math.inf
    no[p.probs == 1] = 0
    return yes + no


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Any:
    sum_p, sum_q = (d.concentration1 + d.concentration0 for d in (p, q))
    normal_q = q.concentration1.lgamma() + q.concentration0.lgamma() + sum_p.lgamma()
    normal_p = p.concentration1.lgamma() + p.concentration0.lgamma() + sum_q.lgamma()
    first = (p.concentration1 - q.concentration1) * torch.digamma(p.concentration1)
    second = (p.concentration0 - q.concentration0) * torch.digamma(p.concentration0)
    return normal_q - normal_p + first + second + (sum_q - sum_p) * torch.digamma(sum_p)


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Any:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    each = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    found = p.total_count * each
    found[p.total_count > q.total_count] = math.inf
    return found


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Any:
    each = p.probs * (p.logits - q.logits)
    each[(q.probs == 0).expand_as(each)] = math.inf
    each[(p.probs == 0).expand_as(each)] = 0
    return each.sum(-1)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Any:
    apart = p.mean * (p.logits - q.logits)
    own = p._cont_bern_log_norm() + torch.log1p(-p.probs)
    return apart + own - q._cont_bern_log_norm() - torch.log1p(-q.probs)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Any:
    sum_p, sum_q = p.concentration.sum(-1), q.concentration.sum(-1)
    parts = (p.concentration.lgamma() - q.concentration.lgamma()).sum(-1)
    slopes = p.concentration.digamma() - sum_p.digamma().unsqueeze(-1)
    moved = ((p.concentration - q.concentration) * slopes).sum(-1)
    return sum_p.lgamma() - sum_q.lgamma() - parts + moved


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: Any, q: Any) -> Any:
    """The Bregman divergence of the log normalizer."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot "
            "                            be computed using Bregman divergences"
        )
    params = [param.detach().requires_grad_() for param in p._natural_params]
    normalizer = p._log_normalizer(*params)
    grads = torch.autograd.grad(normalizer.sum(), params, create_graph=True)
    found = q._log_normalizer(*q._natural_params) - normalizer
    for mine, other, grad in zip(params, q._natural_params, grads, strict=True):
        found = found - sum_rightmost((other - mine) * grad, len(q.event_shape))
    return found


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Any:
    rates = q.concentration * (p.rate / q.rate).log()
    whole = torch.lgamma(q.concentration) - torch.lgamma(p.concentration)
    slope = (p.concentration - q.concentration) * torch.digamma(p.concentration)
    return rates + whole + slope + (q.rate - p.rate) * (p.concentration / p.rate)


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Any, q: Any) -> Any:
    ratio, mine, other = p.scale / q.scale, q.loc / q.scale, p.loc / q.scale
    first = -ratio.log() - mine + other
    third = torch.exp(mine + (1 + ratio).lgamma() - other)
    return first + ratio * euler_constant + third - (1 + euler_constant)


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Any:
    return -p.entropy() - torch.log1p(-q.probs) / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: Any, q: Any) -> Any:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Any:
    ratio, apart = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + apart / q.scale + ratio * torch.exp(-apart / p.scale) - 1


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: Any, q: Any) -> Any:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with                          "
            "different event shapes cannot be computed"
        )
    root_p, root_q = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    shape = torch.broadcast_shapes(root_q.shape[:-2], root_p.shape[:-2])
    n = p.event_shape[0]
    spread_q, spread_p = (root.expand((*shape, n, n)) for root in (root_q, root_p))
    solved = torch.linalg.solve_triangular(spread_q, spread_p, upper=False)
    trace = solved.reshape(-1, n * n).pow(2).sum(-1).reshape(shape)
    apart = squared_length(root_q, q.loc - p.loc)
    return q.half_log_det() - p.half_log_det() + 0.5 * (trace + apart - n)


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale).pow(2)
    apart = ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (ratio + apart - 1 - ratio.log())


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot_categorical(p: Any, q: Any) -> Any:
    return _categorical(p._categorical, q._categorical)


@register_kl(Pareto, Pareto)
def _pareto(p: Any, q: Any) -> Any:
    ratio = q.alpha / p.alpha
    found = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    found[p.support.lower_bound < q.support.lower_bound] = math.inf
    return found


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Any:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Any:
    found = ((q.high - q.low) / (p.high - p.low)).log()
    found[(q.low > p.low) | (q.high < p.high)] = math.inf
    return found


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    found = kl_divergence(p.base_dist, q.base_dist)
    return sum_rightmost(found, p.reinterpreted_batch_ndims)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Any:
    apart = (p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)
    return apart.log() - (4 * p.scale * q.scale).log()
