"""Help pages: options in groups, examples at the end. Plain text, which is fast to show."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

ARGUMENTS, OPTIONS = "Arguments", "Options"
EXAMPLE_INDENT = "  "


class GroupedCommand(TyperCommand):
    """A command whose help lists options under their `rich_help_panel`, in order of declaration."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        parameters: list[Any] = [*self.get_params(ctx)]
        for parameter in parameters:
            row = parameter.get_help_record(ctx)
            if row is not None:
                group = getattr(parameter, "rich_help_panel", None) or OPTIONS
                if parameter.param_type_name == "argument":
                    group, row = ARGUMENTS, (parameter.metavar, parameter.help)
                groups.setdefault(group, []).append(row)
        first = {name: groups.pop(name) for name in (ARGUMENTS, OPTIONS) if name in groups}
        for name, rows in (first | groups).items():
            with formatter.section(name):
                formatter.write_dl(rows)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        arguments: list[Any] = [
            each for each in self.get_params(ctx) if each.param_type_name == "argument"
        ]
        names = (each.metavar if each.required else f"[{each.metavar}]" for each in arguments)
        return ["[OPTIONS]", *names]

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Examples stand as they are written: no line is joined with the next."""
        if self.epilog:
            with formatter.section("Examples"):
                for line in self.epilog.splitlines():
                    formatter.write(f"{EXAMPLE_INDENT}{line}\n")
