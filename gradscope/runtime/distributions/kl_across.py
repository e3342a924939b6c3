"""Divergences of distributions of different kinds."""

from __future__ import annotations

import math
from typing import Any

import gradscope.runtime as torch
from gradscope.runtime.distributions.bernoulli import Bernoulli
from gradscope.runtime.distributions.beta import Beta
from gradscope.runtime.distributions.binomial import Binomial
from gradscope.runtime.distributions.continuous_bernoulli import ContinuousBernoulli
from gradscope.runtime.distributions.exponential import Exponential
from gradscope.runtime.distributions.gamma import Gamma
from gradscope.runtime.distributions.gumbel import Gumbel
from gradscope.runtime.distributions.kl import register_kl
from gradscope.runtime.distributions.laplace import Laplace
from gradscope.runtime.distributions.normal import Normal
from gradscope.runtime.distributions.pareto import Pareto
from gradscope.runtime.distributions.poisson import Poisson
from gradscope.runtime.distributions.uniform import Uniform
from gradscope.runtime.distributions.utils import euler_constant as euler

BOUNDED = (Beta, ContinuousBernoulli, Pareto, Uniform)
SOMEWHERE_IMPOSSIBLE: tuple[tuple[Any, str, tuple[Any, ...]], ...] = (
    (Beta, "concentration1", (Pareto,)),
    (ContinuousBernoulli, "probs", (Pareto,)),
    (Exponential, "rate", BOUNDED),
    (Gamma, "concentration", BOUNDED),
    (Gumbel, "loc", (*BOUNDED, Exponential, Gamma)),
    (Laplace, "loc", (*BOUNDED, Exponential, Gamma)),
    (Normal, "loc", (*BOUNDED, Exponential, Gamma)),
    (Pareto, "scale", (Beta, ContinuousBernoulli, Uniform)),
    (Poisson, "rate", (Bernoulli, Binomial)),
)
"""Pairs with values of p that q never produces: the divergence is infinite."""


def _infinite(name: str) -> Any:
    def infinite(p: Any, _: Any) -> Any:
        return torch.full_like(getattr(p, name), math.inf)

    return infinite


for _kind, _name, _others in SOMEWHERE_IMPOSSIBLE:
    for _other in _others:
        register_kl(_kind, _other)(_infinite(_name))


def _x_log_x(x: Any) -> Any:
    return torch.special.xlogy(x, x)


def _normal_of(q: Any) -> tuple[Any, Any]:
    """A normal distribution's variance, and half its squared mean."""
    return q.scale.pow(2), 0.5 * q.loc.pow(2)


def _gamma_normalizer(q: Any) -> Any:
    return q.concentration.lgamma() - q.concentration * q.rate.log()


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Any:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Beta, ContinuousBernoulli)
def _beta_continuous_bernoulli(p: Any, q: Any) -> Any:
    return -p.entropy() - p.mean * q.logits - torch.log1p(-q.probs) - q._cont_bern_log_norm()


@register_kl(Beta, Exponential)
def _beta_exponential(p: Any, q: Any) -> Any:
    return -p.entropy() - q.rate.log() + q.rate * p.mean


@register_kl(Beta, Gamma)
def _beta_gamma(p: Any, q: Any) -> Any:
    total = p.concentration1 + p.concentration0
    log_mean = p.concentration1.digamma() - total.digamma()
    pulled = -p.entropy() + _gamma_normalizer(q) - (q.concentration - 1) * log_mean
    return pulled + q.rate * p.concentration1 / total


@register_kl(Beta, Normal)
def _beta_normal(p: Any, q: Any) -> Any:
    variance, half_square = _normal_of(q)
    mean = p.mean
    total = p.concentration1 + p.concentration0
    second = (mean * (1 - mean) / (total + 1) + mean.pow(2)) * 0.5
    whole = -p.entropy() + 0.5 * (variance * 2 * math.pi).log()
    return whole + (second - q.loc * mean + half_square) / variance


@register_kl(Beta, Uniform)
def _beta_uniform(p: Any, q: Any) -> Any:
    found = -p.entropy() + (q.high - q.low).log()
    low, high = p.support.lower_bound, p.support.upper_bound
    found[(q.low > low) | (q.high < high)] = math.inf
    return found


@register_kl(ContinuousBernoulli, Exponential)
def _continuous_bernoulli_exponential(p: Any, q: Any) -> Any:
    return -p.entropy() - torch.log(q.rate) + q.rate * p.mean


@register_kl(ContinuousBernoulli, Normal)
def _continuous_bernoulli_normal(p: Any, q: Any) -> Any:
    scaled = torch.square(q.loc / q.scale)
    whole = 0.5 * (math.log(2.0 * math.pi) + scaled) + torch.log(q.scale)
    second = p.variance + torch.square(p.mean) - 2.0 * q.loc * p.mean
    return -p.entropy() + whole + second / (2.0 * torch.square(q.scale))


@register_kl(ContinuousBernoulli, Uniform)
def _continuous_bernoulli_uniform(p: Any, q: Any) -> Any:
    found = -p.entropy() + (q.high - q.low).log()
    low, high = p.support.lower_bound, p.support.upper_bound
    beyond = torch.max(torch.ge(q.low, low), torch.le(q.high, high))
    return torch.where(beyond, torch.ones_like(found) * math.inf, found)


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    shape = q.concentration
    pulled = -shape * torch.log(ratio) + ratio + shape.lgamma()
    return pulled + shape * euler - (1 + euler)


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Any, q: Any) -> Any:
    product, ratio = p.rate * q.scale, q.loc / q.scale
    pulled = torch.exp(ratio) * product / (product + 1)
    return product.log() - 1 - ratio + pulled + product.reciprocal()


@register_kl(Exponential, Normal)
def _exponential_normal(p: Any, q: Any) -> Any:
    variance, half_square = _normal_of(q)
    square = p.rate.pow(2)
    whole = 0.5 * torch.log(square * variance * 2 * math.pi)
    return whole - 1 + (square.reciprocal() - q.loc / p.rate + half_square) / variance


@register_kl(Gamma, Exponential)
def _gamma_exponential(p: Any, q: Any) -> Any:
    return -p.entropy() - q.rate.log() + q.rate * p.concentration / p.rate


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Any, q: Any) -> Any:
    product, ratio, shape = p.rate * q.scale, q.loc / q.scale, p.concentration
    own = (shape - 1) * shape.digamma() - shape.lgamma() - shape
    shrunk = torch.exp(ratio) * (1 + product.reciprocal()).pow(-shape) - ratio
    return own + product.log() + shape / product + shrunk


@register_kl(Gamma, Normal)
def _gamma_normal(p: Any, q: Any) -> Any:
    variance, half_square = _normal_of(q)
    square, shape = p.rate.pow(2), p.concentration
    whole = 0.5 * torch.log(square * variance * 2 * math.pi) - shape - shape.lgamma()
    second = 0.5 * (shape.pow(2) + shape) / square
    moved = (second - q.loc * shape / p.rate + half_square) / variance
    return whole + (shape - 1) * shape.digamma() + moved


@register_kl(Gumbel, Normal)
def _gumbel_normal(p: Any, q: Any) -> Any:
    ratio = p.scale / q.scale
    spread = (math.pi * ratio * 0.5).pow(2) / 3
    apart = ((p.loc + p.scale * euler - q.loc) / q.scale).pow(2) * 0.5
    return -(ratio / math.sqrt(2 * math.pi)).log() + spread + apart - (euler + 1)


@register_kl(Laplace, Normal)
def _laplace_normal(p: Any, q: Any) -> Any:
    variance, half_square = _normal_of(q)
    ratio = p.scale.pow(2) / variance
    apart = (0.5 * p.loc.pow(2) - p.loc * q.loc + half_square) / variance
    return -0.5 * torch.log(2 * ratio / math.pi) + ratio + apart - 1


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Any, q: Any) -> Any:
    mean, ratio, loc = p.loc / q.scale, (p.scale / q.scale).pow(2), q.loc / q.scale
    pulled = torch.exp(-mean + 0.5 * ratio + loc)
    return -ratio.log() * 0.5 + mean - loc + pulled - 0.5 * (1 + math.log(2 * math.pi))


@register_kl(Normal, Laplace)
def _normal_laplace(p: Any, q: Any) -> Any:
    apart, ratio = p.loc - q.loc, p.scale / q.scale
    scaled = apart / p.scale
    near = math.sqrt(2 / math.pi) * p.scale * torch.exp(-0.5 * scaled.pow(2))
    far = apart * torch.erf(math.sqrt(0.5) * scaled)
    return -torch.log(ratio) + (near + far) / q.scale - 0.5 * (1 + math.log(0.5 * math.pi))


@register_kl(Pareto, Exponential)
def _pareto_exponential(p: Any, q: Any) -> Any:
    product = p.scale * q.rate
    found = (p.alpha / product).log() - p.alpha.reciprocal() - 1
    found = found + p.alpha * product / (p.alpha - 1)
    found[p.alpha <= 1] = math.inf
    return found


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Any, q: Any) -> Any:
    common = p.scale.log() + p.alpha.reciprocal()
    found = p.alpha.log() - common + _gamma_normalizer(q) + (1 - q.concentration) * common
    found = found + q.rate * p.alpha * p.scale / (p.alpha - 1) - 1
    found[p.alpha <= 1] = math.inf
    return found


@register_kl(Pareto, Normal)
def _pareto_normal(p: Any, q: Any) -> Any:
    variance = 2 * q.scale.pow(2)
    common = p.scale / (p.alpha - 1)
    whole = (math.sqrt(2 * math.pi) * q.scale * p.alpha / p.scale).log()
    spread = p.alpha * common.pow(2) / (p.alpha - 2)
    apart = (p.alpha * common - q.loc).pow(2)
    found = whole - p.alpha.reciprocal() + (spread + apart) / variance - 1
    found[p.alpha <= 2] = math.inf
    return found


@register_kl(Uniform, Beta)
def _uniform_beta(p: Any, q: Any) -> Any:
    length = p.high - p.low
    first = _x_log_x(p.high) - _x_log_x(p.low) - length
    second = _x_log_x(1 - p.high) - _x_log_x(1 - p.low) + length
    a, b = q.concentration1, q.concentration0
    whole = a.lgamma() + b.lgamma() - (a + b).lgamma()
    found = (b - 1) * second / length + whole - torch.log(length) - (a - 1) * first / length
    found[(p.high > q.support.upper_bound) | (p.low < q.support.lower_bound)] = math.inf
    return found


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p: Any, q: Any) -> Any:
    found = -p.entropy() - p.mean * q.logits - torch.log1p(-q.probs) - q._cont_bern_log_norm()
    low, high = q.support.lower_bound, q.support.upper_bound
    beyond = torch.max(torch.ge(p.high, high), torch.le(p.low, low))
    return torch.where(beyond, torch.ones_like(found) * math.inf, found)


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Any, q: Any) -> Any:
    found = q.rate * (p.high + p.low) / 2 - ((p.high - p.low) * q.rate).log()
    found[p.low < q.support.lower_bound] = math.inf
    return found


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Any, q: Any) -> Any:
    length = p.high - p.low
    logs = (_x_log_x(p.high) - _x_log_x(p.low) - length) / length
    found = -length.log() + _gamma_normalizer(q) + (1 - q.concentration) * logs
    found = found + q.rate * (p.high + p.low) / 2
    found[p.low < q.support.lower_bound] = math.inf
    return found


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Any, q: Any) -> Any:
    share = q.scale / (p.high - p.low)
    high, low = (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
    return share.log() + 0.5 * (high + low) - share * (torch.exp(-high) - torch.exp(-low))


@register_kl(Uniform, Normal)
def _uniform_normal(p: Any, q: Any) -> Any:
    length = p.high - p.low
    whole = (math.sqrt(math.pi * 2) * q.scale / length).log()
    apart = ((p.high + p.low - 2 * q.loc) / 2).pow(2)
    return whole + 0.5 * (length.pow(2) / 12 + apart) / q.scale.pow(2)


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Any, q: Any) -> Any:
    length = p.high - p.low
    logs = (_x_log_x(p.high) - _x_log_x(p.low) - length) / length
    found = logs * (q.alpha + 1) - (q.alpha * q.scale.pow(q.alpha) * length).log()
    found[p.low < q.support.lower_bound] = math.inf
    return found
