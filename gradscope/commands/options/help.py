"""Help pages: options in groups, examples at the end. Plain text, because it is fast."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from typer.core import TyperCommand

ARGUMENTS, OPTIONS = "Arguments", "Options"
EXAMPLE_INDENT = "  "


def in_groups(parameters: Iterable[Any]) -> dict[str, list[Any]]:
    """Parameters by their group in help: arguments and general options first."""
    groups: dict[str, list[Any]] = {ARGUMENTS: [], OPTIONS: []}
    for each in parameters:
        group = getattr(each, "rich_help_panel", None) or OPTIONS
        groups.setdefault(ARGUMENTS if _is_argument(each) else group, []).append(each)
    return {name: group for name, group in groups.items() if group}


def usage_pieces(parameters: Iterable[Any]) -> list[str]:
    """The arguments, as in a usage line."""
    arguments = filter(_is_argument, parameters)
    return [each.metavar if each.required else f"[{each.metavar}]" for each in arguments]


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def _record(parameter: Any, ctx: Any) -> tuple[str, str] | None:
    """A row of a help page."""
    if _is_argument(parameter):
        return parameter.metavar, parameter.help
    found: tuple[str, str] | None = parameter.get_help_record(ctx)
    return found


class GroupedCommand(TyperCommand):
    """A command whose help lists options under their `rich_help_panel`, in order of declaration."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        for name, group in in_groups(self.get_params(ctx)).items():
            records = (_record(each, ctx) for each in group)
            with formatter.section(name):
                formatter.write_dl([each for each in records if each is not None])

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["[OPTIONS]", *usage_pieces(self.get_params(ctx))]

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Show examples unchanged, without joining lines."""
        if self.epilog:
            with formatter.section("Examples"):
                for line in self.epilog.splitlines():
                    formatter.write(f"{EXAMPLE_INDENT}{line}\n")
