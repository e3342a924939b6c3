"""`torch.jit`: functions and modules run unchanged, since compiled ones could not be watched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from gradscope.runtime.core.errors import missing
from gradscope.runtime.core.state.warned import warn_once
from gradscope.runtime.nn.modules.module import Module as ScriptModule

__all__ = [
    "Attribute",
    "Final",
    "ScriptModule",
    "annotate",
    "export",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "optimize_for_inference",
    "save",
    "script",
    "script_method",
    "trace",
    "trace_module",
    "unused",
]


def _as_it_is(name: str) -> None:
    warn_once(
        f"torch.jit.{name}: gradscope runs the original Python code, so that it can be "
        "recorded; nothing is compiled"
    )


def script(obj: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the function or module unchanged."""
    _as_it_is("script")
    return obj


def trace(func: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the function or module unchanged, without calling it."""
    _as_it_is("trace")
    return func


trace_module = trace


def freeze(mod: Any, *args: Any, **kwargs: Any) -> Any:
    return mod


optimize_for_inference = freeze


def script_method(fn: Any) -> Any:
    return fn


export = interface = script_method


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Do nothing: all functions are run by Python."""
    return drop if callable(drop) else script_method


def unused(fn: Any) -> Any:
    return fn


def is_scripting() -> bool:
    return False


def is_tracing() -> bool:
    return False


def annotate(the_type: Any, the_value: Any) -> Any:
    return the_value


def Attribute(value: Any, type: Any = None) -> Any:
    return value


_isinstance: Callable[[Any, Any], bool] = isinstance


def isinstance(obj: Any, target_type: Any) -> bool:
    """Check the type; contents of containers are not checked."""
    origin = getattr(target_type, "__origin__", None)
    return _isinstance(obj, origin or target_type)


@contextmanager
def fuser(name: str) -> Iterator[None]:
    """Would set the fuser inside the block; does nothing."""
    yield


def optimized_execution(should_optimize: bool) -> Any:
    return fuser("")


def _no_programs(*args: Any, **kwargs: Any) -> NoReturn:
    raise RuntimeError(
        "gradscope's runtime has no TorchScript and cannot read or write its files: save the "
        "weights with torch.save(model.state_dict(), path)"
    )


save = load = _no_programs


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch.jit", name, __all__)
