"""The base class of distributions: shapes and checks."""

from __future__ import annotations

import warnings
from typing import Any

import gradscope.runtime as torch
from gradscope.runtime.distributions import constraints
from gradscope.runtime.distributions.utils import broadcast_all, is_number, lazy_property


class Distribution:
    """Random values of an event shape, for each element of a batch shape.

    A subclass lists in `batched` the parameters with the batch shape, and in `evented` those that
    also have the event dims: `expand` expands them.
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    _validate_args = __debug__
    batched: tuple[str, ...]
    evented: tuple[str, ...] = ()

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        if value not in [True, False]:
            raise ValueError
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Any = torch.Size(),  # noqa: B008
        event_shape: Any = torch.Size(),  # noqa: B008
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape = batch_shape
        self._event_shape = event_shape
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _check_parameters(self) -> None:
        try:
            wanted = self.arg_constraints
        except NotImplementedError:
            wanted = {}
            warnings.warn(
                f"{self.__class__} does not define `arg_constraints`. Please set `arg_constraints "
                "= {}` or initialize the distribution with `validate_args=False` to turn off "
                "validation.",
                stacklevel=3,
            )
        for name, constraint in wanted.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(getattr(type(self), name), lazy_property):
                continue
            value = getattr(self, name)
            if not constraint.check(value).all():
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
                    f"{constraint!r}, but found invalid values:\n{value}"
                )

    def _take(self, **values: Any) -> Any:
        """Set broadcast parameters. Returns the batch shape, which is empty if all are numbers."""
        made = broadcast_all(*values.values())
        for name, value in zip(values, made, strict=True):
            setattr(self, name, value)
        return torch.Size() if all(map(is_number, values.values())) else made[0].size()

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution with an expanded batch shape."""
        home = next((c for c in type(self).__mro__ if "batched" in c.__dict__), None)
        if home is None:
            raise NotImplementedError
        new = self._get_checked_instance(home, _instance)
        batch_shape = torch.Size(batch_shape)
        for names, shape in (
            (home.batched, batch_shape),  # type: ignore[attr-defined]
            (home.evented, batch_shape + self.event_shape),  # type: ignore[attr-defined]
        ):
            for name in names:
                if name in self.__dict__:
                    setattr(new, name, self.__dict__[name].expand(shape))
        self._expand_parts(new, batch_shape)
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _expand_parts(self, new: Any, batch_shape: Any) -> None:
        """Set further attributes of an expanded copy."""

    def _get_checked_instance(self, cls: Any, _instance: Any = None) -> Any:
        if _instance is None and type(self).__init__ is not cls.__init__:
            raise NotImplementedError(
                f"Subclass {self.__class__.__name__} of {cls.__name__} that defines a custom "
                "__init__ method must also define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    @property
    def batch_shape(self) -> Any:
        return self._batch_shape

    @property
    def event_shape(self) -> Any:
        return self._event_shape

    @property
    def arg_constraints(self) -> Any:
        raise NotImplementedError

    @property
    def support(self) -> Any:
        raise NotImplementedError

    @property
    def mean(self) -> Any:
        raise NotImplementedError

    @property
    def mode(self) -> Any:
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self) -> Any:
        raise NotImplementedError

    @property
    def stddev(self) -> Any:
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = torch.Size()) -> Any:  # noqa: B008
        """Draw samples without gradients."""
        with torch.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = torch.Size()) -> Any:  # noqa: B008
        """Draw samples with gradients by the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Any:
        warnings.warn(
            "`sample_n(n)` will be deprecated. Use `sample((n,))` instead.",
            FutureWarning,
            stacklevel=2,
        )
        return self.sample(torch.Size((n,)))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density, or probability, of values."""
        raise NotImplementedError

    def cdf(self, value: Any) -> Any:
        raise NotImplementedError

    def icdf(self, value: Any) -> Any:
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Any:
        raise NotImplementedError

    def entropy(self) -> Any:
        raise NotImplementedError

    def perplexity(self) -> Any:
        return torch.exp(self.entropy())

    def _extended_shape(self, sample_shape: Any = torch.Size()) -> Any:  # noqa: B008
        return torch.Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _constant(self, value: float, like: Any) -> Any:
        return torch.full(self._extended_shape(), value, dtype=like.dtype)

    def _enumerated(self, values: Any, *, expand: bool) -> Any:
        """All values along a new first dim, expanded to the batch if requested."""
        values = values.view((-1, *(1 for _ in self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values

    def _validate_sample(self, value: Any) -> None:
        """Refuse a value outside of the support."""
        if not self._validate_args:
            return
        if not isinstance(value, torch.Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        shape, own = value.size(), self._batch_shape + self._event_shape
        if shape[len(shape) - len(self._event_shape) :] != self._event_shape:
            raise ValueError(
                "The right-most size of value must match event_shape: "
                f"{shape} vs {self._event_shape}."
            )
        for i, j in zip(reversed(shape), reversed(own), strict=False):
            if i not in (1, j) and j != 1:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {shape} vs {own}."
                )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{self.__class__} does not define `support` to enable sample validation. Please "
                "initialize the distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        if not support.check(value).all():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape "
                f"{tuple(value.shape)}) to be within the support ({support!r}) of the "
                f"distribution {self!r}, but found invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        own = {name: self.__dict__[name] for name in self.arg_constraints if name in self.__dict__}
        told = [f"{n}: {v if v.numel() == 1 else v.size()}" for n, v in own.items()]
        return f"{self.__class__.__name__}({', '.join(told)})"


class ByProbs(Distribution):
    """Base of distributions with `probs` or `logits`; the other one is derived."""

    is_binary = True
    total_count: Any

    def _choose(self, probs: Any, logits: Any) -> str:
        """Which of the two is given."""
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        return "logits" if probs is None else "probs"

    def _take_either(self, probs: Any, logits: Any, total_count: Any = None) -> Any:
        name = self._choose(probs, logits)
        value = logits if probs is None else probs
        if total_count is None:
            shape = self._take(**{name: value})
        else:
            self._take(total_count=total_count, **{name: value})
            self.total_count = self.total_count.type_as(self.__dict__[name])
            shape = self.__dict__[name].size()
        self._param = self.__dict__[name]
        return shape

    def _expand_parts(self, new: Any, batch_shape: Any) -> None:
        name = "probs" if "probs" in self.__dict__ else "logits"
        new._param = new.__dict__.get(name)

    def _new(self, *args: Any, **kwargs: Any) -> Any:
        return self._param.new(*args, **kwargs)

    @lazy_property
    def logits(self) -> Any:
        from gradscope.runtime.distributions.utils import probs_to_logits

        return probs_to_logits(self.probs, is_binary=self.is_binary)

    @lazy_property
    def probs(self) -> Any:
        from gradscope.runtime.distributions.utils import logits_to_probs

        return logits_to_probs(self.logits, is_binary=self.is_binary)

    @property
    def param_shape(self) -> Any:
        return self._param.size()


class ByLocation(Distribution):
    """Base of distributions with `loc` and `scale`, both of the batch shape."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012
    support = constraints.real
    has_rsample = True
    loc: Any
    scale: Any

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(self._take(loc=loc, scale=scale), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc
