"""What commands take alike, and how it is read without pydantic, slower to import than NumPy."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer
from typer.core import TyperGroup

TracePath = Annotated[Path, typer.Argument(metavar="TRACE", help="A trace file.")]
Step = Annotated[int | None, typer.Option(help="Only this step.", metavar="N")]
Task = Annotated[int | None, typer.Option(help="Only this backward, counted from 0.", metavar="N")]
Rank = Annotated[
    int | None, typer.Option(help="Of a merged trace, only this rank.", min=0, metavar="R")
]
Everything = Annotated[bool, typer.Option("--all", help="Leave nothing out.")]
Plain = Annotated[bool, typer.Option("--plain", help="Only ASCII characters, without colours.")]
Width = Annotated[
    int | None, typer.Option(help="Columns of text (60 or more).", min=60, metavar="COLUMNS")
]


class QuickGroup(TyperGroup):
    """Commands whose plain values are read here; Typer, with pydantic, is asked about the others.

    A Typer before 0.29, which has no pydantic, does not look at what is put in its place.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        return _quick(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            _quick(command.get_params(ctx))
        return command


def _quick(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        parameter._runtime_param = _QUICK  # noqa: SLF001  where Typer would put pydantic's reader
    return parameters


class _QuickReader:
    """Takes the place of what Typer makes of a parameter's type when it meets a value."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        try:
            return _read(value, param.type_descriptor.annotation, param.min)
        except ValueError:  # whatever is wrong with it, Typer says
            param._runtime_param = None  # noqa: SLF001  it makes its own when it is asked
            return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


_QUICK = _QuickReader()


def _read(value: Any, kind: Any, least: float | None) -> Any:
    """The value as one of its parameter's type; a ValueError where that is not plain."""
    if get_origin(kind) is list:
        return [_read(item, get_args(kind)[0], least) for item in value]
    if kind is int:
        number = int(value)
        if least is not None and number < least:
            raise ValueError(value)
        return number
    if kind in {str, Path} or issubclass(kind, Enum):
        return kind(value)
    raise ValueError(kind)
