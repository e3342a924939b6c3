"""The von Mises distribution of angles."""

from __future__ import annotations

import math
from typing import Any, Final

import gradscope.runtime as torch
from gradscope.runtime.distributions import constraints
from gradscope.runtime.distributions.distribution import Distribution
from gradscope.runtime.distributions.utils import broadcast_all, lazy_property

# Abramowitz and Stegun's approximations of modified Bessel functions, 9.8.1 to 9.8.4, in powers of
# (x / 3.75)² below 3.75 and of 3.75 / x above.
NEAR: Final = (
    (1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.360768e-1, 0.45813e-2),
    (0.5, 0.87890594, 0.51498869, 0.15084934, 0.2658733e-1, 0.301532e-2, 0.32411e-3),
)
FAR: Final = (
    (0.39894228, 0.1328592e-1, 0.225319e-2, -0.157565e-2, 0.916281e-2, -0.2057706e-1,
     0.2635537e-1, -0.1647633e-1, 0.392377e-2),
    (0.39894228, -0.3988024e-1, -0.362018e-2, 0.163801e-2, -0.1031555e-1, 0.2282967e-1,
     -0.2895312e-1, 0.1787654e-1, -0.420059e-2),
)  # fmt: skip


def _polynomial(x: Any, coefficients: tuple[float, ...]) -> Any:
    value: Any = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        value = coefficient + x * value
    return value


def log_bessel(x: Any, order: int = 0) -> Any:
    """The logarithm of the modified Bessel function of order 0 or 1."""
    square = (x / 3.75) * (x / 3.75)
    near = _polynomial(square, NEAR[order])
    near = (x.abs() * near if order == 1 else near).log()
    far = x - 0.5 * x.log() + _polynomial(3.75 / x, FAR[order]).log()
    return torch.where(x < 3.75, near, far)


class VonMises(Distribution):
    """Angles around `loc`, more concentrated for larger `concentration`."""

    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real,
        "concentration": constraints.positive,
    }
    support = constraints.real
    has_rsample = False
    batched = ("loc", "concentration", "_loc", "_concentration", "_proposal_r")

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, torch.Size(), validate_args)

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        pull = self.concentration * torch.cos(value - self.loc)
        return pull - math.log(2 * math.pi) - log_bessel(self.concentration, order=0)

    @lazy_property
    def _loc(self) -> Any:
        return self.loc.to(torch.float64)

    @lazy_property
    def _concentration(self) -> Any:
        return self.concentration.to(torch.float64)

    @lazy_property
    def _proposal_r(self) -> Any:
        kappa = self._concentration
        tau = 1 + (1 + 4 * kappa**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        return torch.where(kappa < 1e-5, 1 / kappa + kappa, (1 + rho**2) / (2 * rho))

    def sample(self, sample_shape: Any = torch.Size()) -> Any:  # noqa: B008
        """By Best and Fisher's rejection from wrapped Cauchy angles."""
        with torch.no_grad():
            shape = self._extended_shape(sample_shape)
            x = torch.empty(shape, dtype=torch.float64)
            done = torch.zeros(shape, dtype=torch.bool)
            while not done.all():
                u1, u2, u3 = torch.rand((3, *shape), dtype=torch.float64).unbind()
                z = torch.cos(math.pi * u1)
                f = (1 + self._proposal_r * z) / (self._proposal_r + z)
                c = self._concentration * (self._proposal_r - f)
                accept = (c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0)
                x = torch.where(accept, (u3 - 0.5).sign() * f.acos(), x)
                done = done | accept
            angles = (x + math.pi + self._loc) % (2 * math.pi) - math.pi
            return angles.to(self.loc.dtype)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @lazy_property
    def variance(self) -> Any:
        kappa = self.concentration
        return 1 - (log_bessel(kappa, order=1) - log_bessel(kappa, order=0)).exp()
