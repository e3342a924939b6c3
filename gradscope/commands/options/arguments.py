"""Arguments and options that several commands share; their values are read without pydantic."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer
from typer.core import TyperGroup

TracePath = Annotated[Path, typer.Argument(metavar="TRACE", help="Trace file.")]
_several = typer.Argument(metavar="TRACE...", help="Trace file, or the files of several ranks.")
TracePaths = Annotated[list[Path], _several]
MaybeTracePaths = Annotated[list[Path] | None, _several]
Step = Annotated[int | None, typer.Option(help="Show only this step.", metavar="N")]
Task = Annotated[
    int | None, typer.Option(help="Show only this backward, counted from 0.", metavar="N")
]
Rank = Annotated[
    int | None, typer.Option(help="Show only this rank, of several.", min=0, metavar="R")
]
Everything = Annotated[bool, typer.Option("--all", help="Do not shorten tables and answers.")]
Plain = Annotated[bool, typer.Option("--plain", help="Use only ASCII characters, without colors.")]
Width = Annotated[
    int | None,
    typer.Option(help="Width of the text in columns (60 or more).", min=60, metavar="COLUMNS"),
]


TraceOutput = Annotated[
    Path,
    typer.Option(
        "-o", "--output", help="Trace file to write. An older trace is replaced.", metavar="FILE"
    ),
]


class QuickGroup(TyperGroup):
    """Commands whose plain values are read here: importing pydantic takes longer than NumPy.

    Typer reads the other values. Before 0.29 it does not use pydantic, nor this.
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
        parameter._runtime_param = _QUICK  # noqa: SLF001  Typer would set pydantic's reader
    return parameters


class _QuickReader:
    """Replaces the reader that Typer creates for the type of a parameter."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        try:
            return _read(value, param.type_descriptor.annotation, param.min)
        except ValueError:  # Typer explains the error
            param._runtime_param = None  # noqa: SLF001  Typer makes its own reader
            return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


_QUICK = _QuickReader()


def _read(value: Any, kind: Any, least: float | None) -> Any:
    """Convert a value to the type of its parameter. Raises ValueError if Typer must read it."""
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
