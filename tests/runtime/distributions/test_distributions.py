"""Distributions: PyTorch's draws, densities, moments, gradients, nodes, words."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradscope.runtime as ours

pytestmark = pytest.mark.torch

spec = importlib.util.spec_from_file_location("kinds", Path(__file__).parent / "kinds.py")
assert spec is not None
assert spec.loader is not None
kinds = importlib.util.module_from_spec(spec)
spec.loader.exec_module(kinds)


@pytest.fixture
def engines() -> Any:
    return ours, pytest.importorskip("torch")


def same(ours_found: Any, theirs_found: Any) -> None:
    if isinstance(theirs_found, list):
        assert len(ours_found) == len(theirs_found)
        for one, other in zip(ours_found, theirs_found, strict=True):
            same(one, other)
    elif isinstance(theirs_found, np.ndarray):
        np.testing.assert_allclose(ours_found, theirs_found, rtol=1e-6, atol=1e-9)
    else:
        assert ours_found == theirs_found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("code", kinds.CODES)
def test_a_distribution_is_pytorchs(code: str, engines: Any) -> None:
    mine, theirs = (kinds.Looks(engine, code) for engine in engines)
    engines[1].manual_seed(5)
    sample = kinds.Looks(engines[1], code).made.sample((5,)).numpy()

    found, expected = mine.at(sample), theirs.at(sample)

    assert found.keys() == expected.keys()
    for name, value in expected.items():
        same(found[name], value)


REFUSED = """Normal(0.0, -1.0)
Normal('x', 1.0)
Normal(torch.zeros(2), torch.ones(3))
Normal(0.0, 1.0).log_prob(3)
Normal(torch.zeros(2), 1.0).log_prob(torch.zeros(3))
Normal(0.0, 1.0).log_prob(torch.tensor(float('nan')))
Categorical()
Categorical(torch.tensor(0.5))
Categorical(torch.tensor([0.5, -0.5]))
Categorical(torch.ones(2)).log_prob(torch.tensor(2))
Bernoulli(0.5, 0.5)
Bernoulli(torch.tensor(2.0))
Bernoulli(0.5).log_prob(torch.tensor(0.5))
Bernoulli(0.5).rsample()
Uniform(1.0, 0.0)
Uniform(0.0, 1.0).log_prob(torch.tensor(2.0))
Dirichlet(torch.tensor(1.0))
Dirichlet(torch.ones(2)).log_prob(torch.ones(2))
Independent(D.Normal(0.0, 1.0), 1)
MultivariateNormal(torch.zeros(2))
MultivariateNormal(torch.tensor(0.0), torch.eye(1))
MultivariateNormal(torch.zeros(2), scale_tril=torch.ones(2))
Geometric(torch.zeros(2))
Multinomial(torch.tensor(2), torch.ones(2))
Multinomial(2, torch.ones(2)).log_prob(torch.tensor([2.0, 1.0]))
MixtureSameFamily(D.Normal(0.0, 1.0), D.Normal(torch.zeros(2), 1.0))
MixtureSameFamily(D.Categorical(torch.ones(3)), D.Normal(torch.zeros(2), 1.0))
TransformedDistribution(D.Normal(0.0, 1.0), 3)
TransformedDistribution(D.Normal(0.0, 1.0), [3])
Binomial(torch.tensor([1, 2]), torch.tensor([0.5, 0.5])).entropy()
OneHotCategorical(torch.ones(2)).log_prob(torch.ones(2))
kl_divergence(D.Poisson(1.0), D.Normal(0.0, 1.0))
kl_divergence(D.Binomial(2, torch.tensor(0.5)), D.Binomial(3, torch.tensor(0.5)))
transform_to(D.constraints.boolean)
biject_to.register(3, 3)
Distribution().mean
Distribution().mode"""


@pytest.mark.parametrize("code", REFUSED.split("\n"))
def test_a_distribution_refuses_in_pytorchs_words(code: str, engines: Any) -> None:
    words = []
    for engine in engines:
        names = {"torch": engine, "D": engine.distributions}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises((ValueError, NotImplementedError, RuntimeError, TypeError)) as said:
                eval(f"D.{code}", names)
        text = str(said.value).replace("gradscope.runtime.", "torch.")
        words.append((said.type, text.splitlines()[:1] if said.type is RuntimeError else text))

    assert words[0] == words[1]


def test_checks_can_be_turned_off(engines: Any) -> None:
    for engine in engines:
        kinds_of = engine.distributions
        made = kinds_of.Normal(0.0, -1.0, validate_args=False)
        assert made.scale.item() == -1
        kinds_of.Distribution.set_default_validate_args(False)
        try:
            assert kinds_of.Uniform(1.0, 0.0).low.item() == 1
        finally:
            kinds_of.Distribution.set_default_validate_args(True)


PAIRS = """Normal(a, p) | Normal(p, p + 1)
Bernoulli(u) | Bernoulli(logits=a)
Beta(p, p + 1) | Beta(p + 1, p)
Binomial(5, u) | Binomial(5, u.flip(0))
Categorical(m) | Categorical(m.flip(0))
OneHotCategorical(m) | OneHotCategorical(m.flip(0))
ContinuousBernoulli(u) | ContinuousBernoulli(u.flip(0))
Dirichlet(p) | Dirichlet(p + 1)
Exponential(p) | Exponential(p + 1)
Gamma(p, p + 1) | Gamma(p + 1, p)
Gumbel(a, p) | Gumbel(p, p + 1)
Geometric(u) | Geometric(u.flip(0))
HalfNormal(p) | HalfNormal(p + 1)
Laplace(a, p) | Laplace(p, p + 1)
LogNormal(a, p) | LogNormal(p, p + 1)
MultivariateNormal(a, eye + 0.3) | MultivariateNormal(p, eye * 2)
Pareto(p, p + 1) | Pareto(p + 1, p)
Poisson(p) | Poisson(p + 1)
Uniform(a, a + p) | Uniform(a - 1, a + p + 1)
Independent(D.Normal(a, p), 1) | Independent(D.Normal(p, p), 1)
Cauchy(a, p) | Cauchy(p, p + 1)
Bernoulli(u) | Poisson(p)
Beta(p, p) | ContinuousBernoulli(u)
Beta(p, p) | Pareto(p, p)
Beta(p, p) | Exponential(p)
Beta(p, p) | Gamma(p, p)
Beta(p, p) | Normal(a, p)
Beta(p, p) | Uniform(u * 0 - 1, u * 0 + 2)
ContinuousBernoulli(u) | Exponential(p)
ContinuousBernoulli(u) | Normal(a, p)
ContinuousBernoulli(u) | Uniform(u * 0 - 1, u * 0 + 2)
Exponential(p) | Beta(p, p)
Exponential(p) | Gamma(p, p + 1)
Exponential(p) | Gumbel(a, p)
Exponential(p) | Normal(a, p)
Gamma(p, p) | Exponential(p)
Gamma(p, p) | Gumbel(a, p)
Gamma(p, p) | Normal(a, p)
Gumbel(a, p) | Normal(a, p + 1)
Gumbel(a, p) | Gamma(p, p)
Laplace(a, p) | Normal(a, p)
Normal(a, p) | Gumbel(a, p)
Normal(a, p) | Laplace(a, p + 1)
Normal(a, p) | Uniform(a, a + p)
Pareto(p, p + 2) | Exponential(p)
Pareto(p, p + 1) | Gamma(p, p)
Pareto(p, p + 1) | Normal(a, p)
Poisson(p) | Binomial(3, u)
Uniform(u * 0.1, u) | Beta(p, p)
Uniform(u * 0.1, u) | ContinuousBernoulli(u)
Uniform(u, u + p) | Exponential(p)
Uniform(u, u + p) | Gamma(p, p)
Uniform(a, a + p) | Gumbel(a, p)
Uniform(a, a + p) | Normal(a, p)
Uniform(u, u + p) | Pareto(u, p)
Chi2(p) | Gamma(p, p)"""


@pytest.mark.parametrize("code", PAIRS.split("\n"))
def test_a_divergence_is_pytorchs(code: str, engines: Any) -> None:
    found = []
    for engine in engines:
        names = kinds.scope(engine)
        one, other = (eval(f"D.{part.strip()}", names) for part in code.split("|"))
        apart = engine.distributions.kl_divergence(one, other)
        finite = engine.where(engine.isfinite(apart), apart, engine.zeros_like(apart))
        leaves = [names[name] for name in "apum"]
        grads = [None] * 4
        if finite.requires_grad:
            grads = engine.autograd.grad(finite.sum(), leaves, allow_unused=True)
        found.append([kinds.values(apart), *(g if g is None else kinds.values(g) for g in grads)])

    same(found[0], found[1])


def test_a_divergence_of_a_users_own_is_found_through_the_classes(engines: Any) -> None:
    for engine in engines:
        D = engine.distributions

        class Mine(D.Normal):  # type: ignore[name-defined,misc]
            pass

        p, q = Mine(0.0, 1.0), D.Normal(1.0, 2.0)
        before = D.kl_divergence(p, q).item()
        D.register_kl(Mine, D.Normal)(lambda p, q: "mine")

        assert before == pytest.approx(D.kl_divergence(D.Normal(0.0, 1.0), q).item())
        assert D.kl_divergence(p, q) == "mine"


TRANSFORMS = """ExpTransform() | real
AffineTransform(1.5, -2.0) | real
AffineTransform(torch.tensor(1.5), torch.tensor([1.0, -2.0, 3.0]), event_dim=1) | real
PowerTransform(torch.tensor(2.0)) | positive
SigmoidTransform() | real
SoftplusTransform() | real
TanhTransform() | real
SoftmaxTransform() | real
StickBreakingTransform() | real
ReshapeTransform((3,), (3, 1)) | real
CorrCholeskyTransform() | real
LowerCholeskyTransform() | square
ComposeTransform([D.transforms.ExpTransform(), D.transforms.AffineTransform(1.0, 2.0)]) | real
IndependentTransform(D.transforms.TanhTransform(), 1) | real
CatTransform([D.transforms.ExpTransform(), D.transforms.TanhTransform()], -1, [1, 2]) | real
StackTransform([D.transforms.ExpTransform(), D.transforms.TanhTransform()] * 2, 0) | real
CumulativeDistributionTransform(D.Normal(0.0, 1.0)) | real"""


@pytest.mark.parametrize("code", TRANSFORMS.split("\n"))
def test_a_transform_is_pytorchs(code: str, engines: Any) -> None:
    code, kind = code.split(" | ")
    found = []
    for engine in engines:
        transform = eval(f"D.transforms.{code}", {"torch": engine, "D": engine.distributions})
        rng = np.random.default_rng(0)
        numbers = rng.normal(size=(3, 3) if kind == "square" else (4, 3))
        x = engine.from_numpy(np.abs(numbers) if kind == "positive" else numbers)
        y = transform(x)
        seen = [kinds.values(y), kinds.values(transform.inv(y)), repr(transform)]
        seen += [tuple(transform.forward_shape(x.shape)), transform.bijective]
        try:
            seen.append(kinds.values(transform.log_abs_det_jacobian(x, y)))
            seen.append(kinds.values(transform.inv.log_abs_det_jacobian(y, x)))
        except NotImplementedError:
            seen.append("no stretch")
        seen.append(transform == transform)  # noqa: PLR0124
        again = transform.with_cache()
        seen.append(again.inv(again(x)) is x)
        found.append(seen)

    same(found[0], found[1])


SETS = """real
positive
greater_than(1.0)
greater_than_eq(torch.tensor(1.0))
less_than(1.0)
interval(-1.0, 2.0)
unit_interval
simplex
lower_cholesky
corr_cholesky
real_vector
independent(D.constraints.positive, 1)
cat([D.constraints.positive, D.constraints.unit_interval], -1, [1, 2])
stack([D.constraints.positive, D.constraints.real, D.constraints.positive], -1)"""


@pytest.mark.parametrize("name", ["biject_to", "transform_to"])
@pytest.mark.parametrize("code", SETS.split("\n"))
def test_any_numbers_are_brought_into_a_set(code: str, name: str, engines: Any) -> None:
    found = []
    for engine in engines:
        D = engine.distributions
        constraint = eval(f"D.constraints.{code}", {"torch": engine, "D": D})
        x = engine.from_numpy(np.random.default_rng(1).normal(size=(3, 3)))
        try:
            y = getattr(D, name)(constraint)(x)
            found.append([kinds.values(y), constraint.check(y).all().item(), repr(constraint)])
        except NotImplementedError as error:
            found.append([str(error)])

    same(found[0], found[1])
    assert len(found[0]) == 1 or found[0][1]
