"""Transforms from unconstrained numbers to constrained ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradscope.runtime.distributions import constraints, transforms
from gradscope.runtime.distributions.utils import is_number

Factory = Callable[[Any], Any]


class ConstraintRegistry:
    """A function for each kind of constraint, which creates its transform."""

    def __init__(self) -> None:
        self._registry: dict[Any, Callable[[Any], Any]] = {}

    def register(self, constraint: Any, factory: Any = None) -> Any:
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        if isinstance(constraint, constraints.Constraint):
            constraint = type(constraint)
        if not isinstance(constraint, type) or not issubclass(constraint, constraints.Constraint):
            raise TypeError(
                "Expected constraint to be either a Constraint subclass or instance, but got "
                f"{constraint}"
            )
        self._registry[constraint] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        try:
            factory = self._registry[type(constraint)]
        except KeyError:
            raise NotImplementedError(
                f"Cannot transform {type(constraint).__name__} constraints"
            ) from None
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()
BOTH = (biject_to, transform_to)


def _for(*kinds: Any, only: Any = None) -> Callable[[Factory], Factory]:
    def registered(factory: Factory) -> Factory:
        for registry in BOTH if only is None else (only,):
            for kind in kinds:
                registry.register(kind, factory)
        return factory

    return registered


@_for(constraints.real)
def _real(constraint: Any) -> Any:
    return transforms.identity_transform


@_for(constraints.positive, constraints.nonnegative)
def _positive(constraint: Any) -> Any:
    return transforms.ExpTransform()


def _from(bound: Any, sign: int) -> Any:
    parts = [transforms.ExpTransform(), transforms.AffineTransform(bound, sign)]
    return transforms.ComposeTransform(parts)


@_for(constraints.greater_than, constraints.greater_than_eq)
def _above(constraint: Any) -> Any:
    return _from(constraint.lower_bound, 1)


@_for(constraints.less_than)
def _below(constraint: Any) -> Any:
    return _from(constraint.upper_bound, -1)


@_for(constraints.interval, constraints.half_open_interval)
def _between(constraint: Any) -> Any:
    low, high = constraint.lower_bound, constraint.upper_bound
    if is_number(low) and is_number(high) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    parts = [transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)]
    return transforms.ComposeTransform(parts)


@_for(constraints.simplex, only=biject_to)
def _simplex(constraint: Any) -> Any:
    return transforms.StickBreakingTransform()


@_for(constraints.simplex, only=transform_to)
def _onto_simplex(constraint: Any) -> Any:
    return transforms.SoftmaxTransform()


@_for(constraints.lower_cholesky, only=transform_to)
def _lower_cholesky(constraint: Any) -> Any:
    return transforms.LowerCholeskyTransform()


@_for(constraints.positive_definite, constraints.positive_semidefinite, only=transform_to)
def _positive_definite(constraint: Any) -> Any:
    return transforms.PositiveDefiniteTransform()


@_for(constraints.corr_cholesky)
def _corr_cholesky(constraint: Any) -> Any:
    return transforms.CorrCholeskyTransform()


def _register_for_parts(registry: ConstraintRegistry) -> None:
    """Register the transforms of composite constraints."""

    def of_independent(constraint: Any) -> Any:
        base = registry(constraint.base_constraint)
        return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)

    def of_cat(constraint: Any) -> Any:
        parts = [registry(c) for c in constraint.cseq]
        return transforms.CatTransform(parts, constraint.dim, constraint.lengths)

    def of_stack(constraint: Any) -> Any:
        return transforms.StackTransform([registry(c) for c in constraint.cseq], constraint.dim)

    registry.register(constraints.independent, of_independent)
    registry.register(constraints.cat, of_cat)
    registry.register(constraints.stack, of_stack)


for _registry in BOTH:
    _register_for_parts(_registry)
