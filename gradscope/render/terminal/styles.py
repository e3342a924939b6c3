"""The theme's colours as terminal styles, for any background."""

from __future__ import annotations

from gradscope.analysis.findings import Severity
from gradscope.render.theme import LIGHT
from gradscope.scene.kinds import NodeKind

BOLD = "bold"
SOFT = "dim"
ACCENT = "cyan"
ALARM = "bold red"
WARN = "yellow"
GOOD = "green"

SEVERITY_STYLES = {Severity.ERROR: ALARM, Severity.WARNING: WARN, Severity.NOTE: ACCENT}


def kind_style(kind: NodeKind | None) -> str:
    """The colour of a kind's outline in pictures, which is legible on light and on dark."""
    return LIGHT.kinds[kind].line if kind is not None else ""
