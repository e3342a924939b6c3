"""Checks whether arguments fit a signature of a function, and writes PyTorch's message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gradscope.runtime.core.errors.arguments.kinds import fits, type_name, wrong_place
from gradscope.runtime.core.errors.arguments.signatures import CallSignature, SignatureParameter


def refusal(
    name: str, ways: Sequence[CallSignature], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> str | None:
    """PyTorch's message for these arguments; None if it accepts them."""
    found = [_against(name, way, args, kwargs) for way in ways]
    for said in found:
        if said is None:
            return None
        if said.unpacked:
            return str(said)
    if len(ways) == 1:
        return str(found[0])
    many = len(args) + len(kwargs)
    likely = [
        said
        for way, said in zip(ways, found, strict=True)
        if way.needed <= many <= len(way.parameters)
    ]
    if len(likely) == 1:
        return str(likely[0])
    choice = "".join(f"\n * {way}" for way in ways)
    return (
        f"{name}() received an invalid combination of arguments - got {_given(args, kwargs)}, but "
        f"expected one of:{choice}"
    )


class Refusal(str):
    """Why arguments do not fit; `unpacked`: only an element inside a list does not fit."""

    __slots__ = ("unpacked",)
    unpacked: bool


def _said(text: str, *, unpacked: bool = False) -> Refusal:
    said = Refusal(text)
    said.unpacked = unpacked
    return said


def _against(
    name: str, way: CallSignature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Refusal | None:
    """Why one signature does not accept these arguments; None if it does."""
    if way.takes_sizes and (len(args) > 1 or (args and fits("int", args[0]))):
        sizes = tuple(args)
        if not fits("ints", sizes):
            return _said(_too_many(name, way, len(args)))
        args = (sizes,)
    if len(args) > way.by_place:
        return _said(_too_many(name, way, len(args)))
    later = None
    for place, parameter in enumerate(way.parameters):
        if place < len(args):
            value, at = args[place], f" (position {place + 1})"
        elif parameter.name in kwargs:
            value, at = kwargs[parameter.name], ""
        elif parameter.default is None:
            return _said(_missing(name, way, place, kwargs))
        else:
            continue
        if value is None and (parameter.none or parameter.default == "None"):
            continue
        if not fits(parameter.kind, value):
            return _said(_wrong(name, parameter, value, at))
        bad = wrong_place(parameter.kind, value)
        if bad is not None and later is None:
            later = (
                f"{name}(): argument '{parameter.name}' failed to unpack the object at pos "
                f'{bad + 1} with error "type must be {parameter.shown},but got '
                f'{type_name(value[bad])}"'
            )
    known = {p.name for p in way.parameters}
    unknown = next((key for key in kwargs if key not in known), None)
    if unknown is not None:
        return _said(f"{name}() got an unexpected keyword argument '{unknown}'")
    return None if later is None else _said(later, unpacked=True)


def _wrong(name: str, parameter: SignatureParameter, value: Any, at: str) -> str:
    text = f"{name}(): argument '{parameter.name}'{at} must be {parameter.shown}, "
    if parameter.kind in {"ints", "ints1"} and isinstance(value, list | tuple):
        return f"{text}but found element of type {type_name(value[0])} at pos 0"
    return f"{text}not {type_name(value)}"


def _too_many(name: str, way: CallSignature, given: int) -> str:
    most = way.by_place
    least = sum(p.default is None and not p.by_name for p in way.parameters)
    reach = f"from {least} to {most}" if least < most else str(most)
    many, were = "" if most == 1 else "s", "was" if given == 1 else "were"
    return f"{name}() takes {reach} positional argument{many} but {given} {were} given"


def _missing(name: str, way: CallSignature, place: int, kwargs: Mapping[str, Any]) -> str:
    names = [p.name for p in way.parameters[place:] if p.default is None and p.name not in kwargs]
    many = "s" if len(names) == 1 else ""  # as PyTorch has it
    shown = ", ".join(f'"{each}"' for each in names)
    return f"{name}() missing {len(names)} required positional argument{many}: {shown}"


def _given(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """The classes of the arguments; PyTorch lists named ones in the order of a hash table."""
    by_place = [type_name(value) for value in args]
    by_name = [f"{key}={type_name(value)}" for key, value in reversed(list(kwargs.items()))]
    alone = not by_place and len(by_name) == 1
    return f"({', '.join([*by_place, *by_name])}{', ' if alone else ''})"
