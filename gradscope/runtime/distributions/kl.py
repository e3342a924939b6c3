"""`kl_divergence`: Kullback-Leibler divergences, for pairs of distributions with a formula."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

from gradscope.runtime.distributions.distribution import Distribution

__all__ = ["kl_divergence", "register_kl"]

_KL_REGISTRY: dict[tuple[Any, Any], Callable[..., Any]] = {}
_KL_MEMOIZE: dict[tuple[Any, Any], Any] = {}


def register_kl(type_p: Any, type_q: Any) -> Callable[[Any], Any]:
    """Register a function for the divergence of two kinds of distributions and their subclasses."""
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        if not (isinstance(kind, type) and issubclass(kind, Distribution)):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {kind}")

    def registered(function: Any) -> Any:
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()
        return function

    return registered


def _nearest(pairs: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    """The pair with the most specific first class; among those, second class."""
    best = pairs[0]
    for pair in pairs[1:]:
        for mine, other in zip(pair, best, strict=True):
            if mine is not other:
                best = pair if issubclass(mine, other) else best
                break
    return best


def _dispatch(type_p: Any, type_q: Any) -> Any:
    found = [(p, q) for p, q in _KL_REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not found:
        return NotImplemented
    left_p, left_q = _nearest(found)
    right_q, right_p = _nearest([(q, p) for p, q in found])
    if _KL_REGISTRY[left_p, left_q] is not _KL_REGISTRY[right_p, right_q]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please "
            f"register_kl({left_p.__name__}, {right_q.__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return _KL_REGISTRY[left_p, left_q]


def kl_divergence(p: Any, q: Any) -> Any:
    """The Kullback-Leibler divergence: the mean of log p - log q over samples of p."""
    for name in ("kl_within", "kl_across"):  # the formulas, once
        import_module(f"{__package__}.{name}")
    key = (type(p), type(q))
    if key not in _KL_MEMOIZE:
        _KL_MEMOIZE[key] = _dispatch(*key)
    function = _KL_MEMOIZE[key]
    if function is NotImplemented:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {p.__class__.__name__} and q type "
            f"{q.__class__.__name__}"
        )
    return function(p, q)
