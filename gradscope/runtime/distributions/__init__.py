"""Probability distributions: samples, densities, and reparameterized gradients."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gradscope.runtime.core.errors import missing

HOMES = {
    "Bernoulli": "bernoulli", "Beta": "beta", "Binomial": "binomial",
    "Categorical": "categorical", "Cauchy": "cauchy", "Chi2": "chi2",
    "ContinuousBernoulli": "continuous_bernoulli", "Dirichlet": "dirichlet",
    "Distribution": "distribution", "Exponential": "exponential",
    "ExponentialFamily": "exp_family", "FisherSnedecor": "fishersnedecor", "Gamma": "gamma",
    "Geometric": "geometric", "Gumbel": "gumbel", "HalfCauchy": "half_cauchy",
    "HalfNormal": "half_normal", "Independent": "independent", "InverseGamma": "inverse_gamma",
    "Kumaraswamy": "kumaraswamy", "Laplace": "laplace", "LogNormal": "log_normal",
    "LogisticNormal": "logistic_normal", "MixtureSameFamily": "mixture_same_family",
    "Multinomial": "multinomial", "MultivariateNormal": "multivariate_normal",
    "NegativeBinomial": "negative_binomial", "Normal": "normal",
    "OneHotCategorical": "one_hot_categorical",
    "OneHotCategoricalStraightThrough": "one_hot_categorical", "Pareto": "pareto",
    "Poisson": "poisson", "RelaxedBernoulli": "relaxed_bernoulli",
    "RelaxedOneHotCategorical": "relaxed_categorical", "StudentT": "studentT",
    "TransformedDistribution": "transformed_distribution", "Uniform": "uniform",
    "VonMises": "von_mises", "Weibull": "weibull", "biject_to": "constraint_registry",
    "kl_divergence": "kl", "register_kl": "kl", "transform_to": "constraint_registry",
    "AbsTransform": "transforms", "AffineTransform": "transforms", "CatTransform": "transforms",
    "ComposeTransform": "transforms", "CorrCholeskyTransform": "transforms",
    "CumulativeDistributionTransform": "transforms", "ExpTransform": "transforms",
    "IndependentTransform": "transforms", "LowerCholeskyTransform": "transforms",
    "PositiveDefiniteTransform": "transforms", "PowerTransform": "transforms",
    "ReshapeTransform": "transforms", "SigmoidTransform": "transforms",
    "SoftmaxTransform": "transforms", "SoftplusTransform": "transforms",
    "StackTransform": "transforms", "StickBreakingTransform": "transforms",
    "TanhTransform": "transforms", "Transform": "transforms", "identity_transform": "transforms",
}  # fmt: skip
"""The module of each name, imported on first use."""
MODULES = ("constraints", "utils", *dict.fromkeys(HOMES.values()))

__all__ = sorted(HOMES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name in HOMES:
        return getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
    if name in MODULES:
        return import_module(f"{__name__}.{name}")
    raise missing.no_module_attribute("torch.distributions", name, [*HOMES, *MODULES])


def __dir__() -> list[str]:
    return sorted({*HOMES, *MODULES})
