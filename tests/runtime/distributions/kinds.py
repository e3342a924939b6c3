"""Every kind of distribution, made of the same parameters on both engines."""

from __future__ import annotations

from typing import Any

import numpy as np

TEXT = """Normal(a, p)
Normal(0.5, 2.0)
Categorical(probs=m)
Categorical(logits=a)
Bernoulli(u)
Bernoulli(logits=a)
Independent(D.Normal(a, p), 1)
Beta(p, p + 1)
Gamma(p, p + 0.5)
Dirichlet(p)
MultivariateNormal(a, eye * 2 + 0.3)
MultivariateNormal(a, scale_tril=eye + (eye * 0 + 0.4).tril(-1))
MultivariateNormal(a[0], precision_matrix=eye * 2 + 0.3)
Uniform(a, a + p)
Exponential(p)
Laplace(a, p)
Poisson(p * 3)
Binomial(5, u)
Binomial(30, logits=a)
OneHotCategorical(m)
OneHotCategoricalStraightThrough(logits=a)
LogNormal(a, p)
TransformedDistribution(D.Normal(a, p), [T.TanhTransform(cache_size=1), T.AffineTransform(0.5, 2.0)])
TransformedDistribution(D.Uniform(a * 0, a * 0 + 1), [T.SigmoidTransform().inv, T.AffineTransform(a, p)])
MixtureSameFamily(D.Categorical(m), D.Normal(a, p))
MixtureSameFamily(D.Categorical(m[0]), D.Independent(D.Normal(a.t().contiguous(), p.t().contiguous()), 1))
Cauchy(a, p)
Chi2(p)
ContinuousBernoulli(u)
FisherSnedecor(p + 4, p + 5)
Geometric(u)
Gumbel(a, p)
HalfCauchy(p)
HalfNormal(p)
InverseGamma(p + 3, p)
Kumaraswamy(p, p + 1)
LogisticNormal(a, p)
Multinomial(6, m)
NegativeBinomial(p + 1, u)
Pareto(p, p + 3)
RelaxedBernoulli(p[0, 0], u)
RelaxedOneHotCategorical(p[0, 0], m)
StudentT(p + 3, a, p)
VonMises(a, p)
Weibull(p, p + 0.5)"""  # noqa: E501
CODES = TEXT.split("\n")


def scope(engine: Any) -> dict[str, Any]:
    """Real numbers, positive ones, ones between 0 and 1, and shares of a whole."""
    rng = np.random.default_rng(0)

    def leaf(values: Any) -> Any:
        return engine.from_numpy(values).requires_grad_()

    shares = rng.random((4, 3)) + 0.1
    return {
        "torch": engine,
        "D": engine.distributions,
        "T": engine.distributions.transforms,
        "a": leaf(rng.normal(size=(4, 3))),
        "p": leaf(rng.random((4, 3)) * 2 + 0.2),
        "u": leaf(rng.random((4, 3)) * 0.9 + 0.05),
        "m": leaf(shares / shares.sum(-1, keepdims=True)),
        "eye": engine.eye(3, dtype=engine.float64),
    }


def values(found: Any) -> Any:
    return found.detach().numpy().astype(np.float64)


class Looks:
    """What is found of a distribution: values, and the gradients of its parameters."""

    def __init__(self, engine: Any, code: str) -> None:
        self.engine = engine
        self.scope = scope(engine)
        self.made = eval(f"D.{code}", self.scope)
        self.found: dict[str, Any] = {}

    def look(self, name: str, function: Any) -> None:
        try:
            made = function()
            self.found[name] = values(made)
            if made.requires_grad:
                self._look_back(name, made)
        except (NotImplementedError, AttributeError) as error:
            self.found[name] = str(error).replace("gradscope.runtime", "torch")

    def _look_back(self, name: str, made: Any) -> None:
        engine = self.engine
        leaves = [self.scope[name] for name in "apum"]
        finite = engine.where(engine.isfinite(made), made, engine.zeros_like(made))
        grads = engine.autograd.grad(finite.sum(), leaves, allow_unused=True, retain_graph=True)
        self.found[f"gradients of {name}"] = [None if g is None else values(g) for g in grads]
        self.found[f"node of {name}"] = type(made.grad_fn).__name__

    def seeded(self, seed: int, function: Any) -> Any:
        self.engine.manual_seed(seed)
        return function()

    def at(self, sample: Any) -> dict[str, Any]:
        """All there is to see, with the densities of `sample`."""
        made, engine = self.made, self.engine
        self.found["repr"] = repr(made).partition("0x")[0]
        shapes = tuple(made.batch_shape), tuple(made.event_shape)
        self.found["kind"] = (*shapes, made.has_rsample, made.has_enumerate_support)
        self.look("sample", lambda: self.seeded(5, lambda: made.sample((5,))))
        sample = engine.from_numpy(sample).to(made.sample().dtype)
        self.look("log_prob", lambda: made.log_prob(sample))
        self.look("cdf", lambda: made.cdf(sample))
        point = engine.full(made.batch_shape, 0.3, dtype=engine.float64)
        self.look("icdf", lambda: made.icdf(point))
        for name in ("mean", "variance", "stddev", "mode"):
            self.look(name, lambda name=name: getattr(made, name))
        self.look("entropy", made.entropy)
        if made.has_rsample:
            self.look("rsample", lambda: self.seeded(6, lambda: made.rsample((3,))))
        self.look("what is drawn next", lambda: engine.rand(2))
        self.look("support", made.enumerate_support)
        larger = (2, *made.batch_shape)
        self.look("expanded", lambda: self.seeded(2, made.expand(larger).sample))
        return self.found
