"""The colours of a theme as CSS properties; scripts and other styles contain no colours."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.render.theme import DARK, LIGHT, STRUCTURE_KINDS, Theme, lane_colour, structure_paint

FLAT = ("page", "ink", "soft", "code", "arrow", "alarm", "alarm_fill", "accent")
LANES = len(LIGHT.backwards)
"""Number of lanes with a different colour; equal to `LANES` in paint.js."""


def themes_css() -> str:
    """The light theme, and the dark one if the system or the reader selects it."""
    light, dark = _block(LIGHT), _block(DARK)
    return (
        f":root {{ color-scheme: light; {light} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ "
        f':root:not([data-theme="light"]) {{ color-scheme: dark; {dark} }} }}\n'
        f'@media screen {{ :root[data-theme="dark"] {{ color-scheme: dark; {dark} }} }}\n'
    )


def _block(theme: Theme) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in _properties(theme))


def _properties(theme: Theme) -> Iterator[tuple[str, str]]:
    for name in FLAT:
        yield name.replace("_", "-"), getattr(theme, name)
    yield "group-fill", theme.group.fill
    yield "group-line", theme.group.line
    for number, paint in enumerate(theme.kinds.values()):
        yield f"kind-{number}-fill", paint.fill
        yield f"kind-{number}-line", paint.line
    for form, paint in theme.forms.items():
        yield f"{form.name.lower()}-fill", paint.fill
        yield f"{form.name.lower()}-line", paint.line
    for number in range(LANES):
        yield f"lane-{number}", lane_colour(theme, number)
    for number in range(len(STRUCTURE_KINDS)):
        paint = structure_paint(theme, number)
        yield f"structure-{number}-fill", paint.fill
        yield f"structure-{number}-line", paint.line
    for number, colour in enumerate(theme.heat):
        yield f"heat-{number}", colour
