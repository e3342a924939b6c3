"""Infers the schema of a function from its type hints."""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any

SIMPLE = {
    "Tensor": "Tensor", "int": "SymInt", "float": "float", "bool": "bool", "str": "str",
    "dtype": "ScalarType", "device": "Device", "complex": "complex",
}  # fmt: skip


def infer_schema(
    prototype_function: Callable[..., Any],
    /,
    *,
    mutates_args: Any,
    op_name: str | None = None,
    tags: Any = None,
) -> str:
    """The schema of the operator that this function computes."""
    function = prototype_function
    signature = inspect.signature(function)

    def fail(text: str) -> Any:
        raise ValueError(f"infer_schema(func): {text} Got func with signature {signature})")

    parts: list[str] = []
    hints = _hints(function, signature, fail)
    unknown = mutates_args == "unknown"
    written = [] if unknown else list(mutates_args)
    for place, (name, parameter) in enumerate(signature.parameters.items()):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            fail("We do not support positional-only args, varargs, or varkwargs.")
        if parameter.annotation is inspect.Parameter.empty:
            fail(f"Parameter {name} must have a type annotation.")
        text = type_text(hints[name])
        if text is None:
            fail(
                f"Parameter {name} has unsupported type {hints[name]}. The valid types are: "
                f"{', '.join(sorted(SIMPLE))}, and optional ones and lists of these."
            )
        text = str(text)
        if name in written or (unknown and text.startswith("Tensor")):
            if not text.startswith("Tensor"):
                fail(
                    f"Parameter {name} is in mutable_args but only Tensors or collections of "
                    "Tensors can be mutated"
                )
            text = text.replace("Tensor", f"Tensor(a{place}!)", 1)
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        parts.append(f"{text} {name}{_default(parameter.default)}")
    if strangers := set(written) - set(signature.parameters):
        fail(
            f"{strangers} in mutates_args were not found in the custom op's signature. "
            "mutates_args should contain the names of all args that the custom op mutates, or "
            "just the string 'unknown' if you don't know."
        )
    if signature.return_annotation is inspect.Signature.empty:
        fail("No return type annotation was provided. Please add one.")
    text = f"({', '.join(parts)}) -> {_returns(hints['return'], fail)}"
    return text if op_name is None else f"{op_name}{text}"


def _hints(function: Any, signature: inspect.Signature, fail: Any) -> dict[str, Any]:
    """Annotations as types. They may be text."""
    made: dict[str, Any] = {}
    named = {name: p.annotation for name, p in signature.parameters.items()}
    for name, hint in {**named, "return": signature.return_annotation}.items():
        if isinstance(hint, str):
            try:
                made[name] = eval(hint, getattr(function, "__globals__", {}))  # noqa: S307
            except (AttributeError, NameError, SyntaxError, TypeError) as error:
                fail(f"Unsupported type annotation {hint}. It is not a type. ({error}).")
        else:
            made[name] = hint
    return made


def type_text(hint: Any) -> str | None:
    """A type as schemas write it, or None."""
    if isinstance(hint, type) and hint.__name__ in SIMPLE and not typing.get_args(hint):
        return SIMPLE[hint.__name__]
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _union(inner)
    if origin in (list, collections.abc.Sequence) and len(inner) == 1:
        text = type_text(inner[0])
        return None if text is None else f"{text}[]"
    return None


def _union(inner: tuple[Any, ...]) -> str | None:
    given = [each for each in inner if each is not type(None)]
    optional = "?" if len(given) < len(inner) else ""
    if set(given) in ({int, float, bool}, {int, float, bool, complex}):
        return f"Scalar{optional}"
    text = type_text(given[0]) if len(given) == 1 else None
    return None if text is None else f"{text}{optional}"


def _default(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return ""
    if isinstance(value, str):
        return f'="{value}"'
    if isinstance(value, list | tuple):
        return f"={list(value)}"
    return f"={str(value).removeprefix('torch.')}"


def _returns(hint: Any, fail: Any) -> str:
    if hint is None or hint is type(None):
        return "()"
    text = type_text(hint)
    if text is not None:
        return text
    if typing.get_origin(hint) is tuple:
        parts: Iterable[str | None] = map(type_text, typing.get_args(hint))
        texts = [part for part in parts if part is not None]
        if len(texts) == len(typing.get_args(hint)):
            return f"({', '.join(texts)})" if len(texts) > 1 else f"({texts[0]})"
    return str(fail(f"Return has unsupported type {hint}."))
