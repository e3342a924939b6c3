"""`checkpoint` and `checkpoint_sequential`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from gradscope.runtime.core.state.thread import local
from gradscope.runtime.nn import Sequential
from gradscope.runtime.utils.checkpoint.debug import Logs
from gradscope.runtime.utils.checkpoint.reentrant import CheckpointFunction
from gradscope.runtime.utils.checkpoint.region import CHECKS, How, Region
from gradscope.runtime.utils.checkpoint.switches import switches

Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]


def noop_context_fn() -> Contexts:
    """Two contexts that do nothing."""
    return nullcontext(), nullcontext()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], Contexts] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Call `function`, save only its inputs, and recompute the rest during backward.

    With `use_reentrant=False`, saved tensors of a region are recomputed when the first of them is
    read. With `use_reentrant=True`, one node stands for the whole region and runs a backward of its
    own.
    """
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. "
            "Starting in PyTorch 2.9, calling checkpoint without use_reentrant will raise an "
            "exception. use_reentrant=False is recommended, but if you need to preserve the "
            "current default behavior, you can pass use_reentrant=True. Refer to docs for more "
            "details on the differences between the two variants.",
            UserWarning,
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if not use_reentrant:
        logs = _logs(context_fn, debug=debug if switches.debug is None else switches.debug)
        how = How(
            preserve_rng_state=preserve,
            early_stop=early_stop if switches.early_stop is None else switches.early_stop,
            check=_check(determinism_check),
            contexts=_contexts(context_fn) if logs is None else logs.contexts(),
            report=None if logs is None else logs.report,
        )
        if not local.state.grad_enabled:
            return function(*args, **kwargs)
        return Region(function, args, kwargs, how).run(args)
    _refuse_keywords(kwargs)
    if context_fn is not noop_context_fn or debug is not False:
        raise ValueError(
            "Passing `context_fn` or `debug` is only supported when use_reentrant=False."
        )
    return CheckpointFunction.apply(function, preserve, *args)


def _logs(context_fn: Callable[[], Contexts], *, debug: bool) -> Logs | None:
    if not debug:
        return None
    if context_fn is not noop_context_fn:
        raise ValueError("debug=True is incompatible with non-default context_fn")
    return Logs()


def _contexts(context_fn: Callable[[], Contexts]) -> Contexts:
    forward, recompute = context_fn()
    return forward, recompute


def _check(determinism_check: str) -> Callable[[Any], Any]:
    if determinism_check not in CHECKS:
        raise ValueError(
            f"determinism_check should be one of {list(CHECKS)}, but got {determinism_check}"
        )
    return CHECKS[determinism_check]


def _refuse_keywords(kwargs: dict[str, Any]) -> None:
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))


def checkpoint_sequential(
    functions: Any,
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Call modules or functions in sequence, in `segments` checkpoints, except the last segment."""
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be "
            "passed explicitly. In version 2.9 we will raise an exception if use_reentrant is not "
            "passed. use_reentrant=False is recommended, but if you need to preserve the current "
            "default behavior, you can pass use_reentrant=True. Refer to docs for more details on "
            "the differences between the two variants.",
            UserWarning,
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    _refuse_keywords(kwargs)
    steps = list(functions.children()) if isinstance(functions, Sequential) else functions
    size = len(steps) // segments
    end = 0
    for start in range(0, size * (segments - 1), size):
        end = start + size
        input = checkpoint(
            _one_after_another(steps[start:end]),
            input,
            use_reentrant=use_reentrant,
            preserve_rng_state=preserve,
        )
    return _one_after_another(steps[end:])(input)


def _one_after_another(steps: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def run(value: Any) -> Any:
        for step in steps:
            value = step(value)
        return value

    return run
