"""Every colour and glyph: the same thing looks the same in every format, in light and in dark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from gradscope.scene.kinds import BoxMark, Form, NodeKind
from gradscope.trace.schema import NONE

Colour = str
"""As in "#1f2328"."""


@dataclass(frozen=True, slots=True)
class Paint:
    """How a box is painted."""

    fill: Colour
    line: Colour


@dataclass(frozen=True, slots=True)
class Theme:
    """One set of colours."""

    name: str
    page: Colour
    ink: Colour
    soft: Colour  # less important text
    code: Colour
    arrow: Colour
    alarm: Colour
    alarm_fill: Colour
    accent: Colour
    group: Paint
    kinds: Mapping[NodeKind, Paint]
    forms: Mapping[Form, Paint]  # for forms without a kind
    heat: tuple[Colour, ...]  # from cold to hot; ink is legible on each
    unknown: Paint  # for boxes without a value
    backwards: tuple[Colour, ...]  # of several in one picture, by their numbers, repeated


LIGHT = Theme(
    name="light",
    page="#ffffff",
    ink="#1f2328",
    soft="#59636e",
    code="#3d4752",
    arrow="#6e7781",
    alarm="#b31d28",
    alarm_fill="#ffe5e3",
    accent="#0757c0",
    group=Paint("#f6f8fa", "#8a8f95"),
    kinds={
        NodeKind.LEAF: Paint("#e3f5e6", "#2b8a45"),
        NodeKind.POINTWISE: Paint("#e4f0fc", "#3b7fc4"),
        NodeKind.MATMUL: Paint("#ece6fb", "#7c55d1"),
        NodeKind.LINALG: Paint("#e2e5fb", "#4452b8"),
        NodeKind.REDUCTION: Paint("#fdf2d8", "#b18411"),
        NodeKind.POOLING: Paint("#eef6d6", "#6b8a1e"),
        NodeKind.VIEW: Paint("#f0f2f5", "#838b95"),
        NodeKind.INDEX: Paint("#dcf3f1", "#1a8f88"),
        NodeKind.NORMALIZATION: Paint("#fce8f3", "#b8428a"),
        NodeKind.LOSS: Paint("#ffe9e0", "#d0643c"),
        NodeKind.CUSTOM: Paint("#f2ecd9", "#86661a"),
        NodeKind.OTHER: Paint("#f6f8fa", "#6e7781"),
    },
    forms={
        Form.DATA: Paint("#ffffff", "#59636e"),
        Form.SAVED: Paint("#fffbe8", "#9f8e4d"),
        Form.FOLDED: Paint("#e9edf2", "#59636e"),
        Form.KERNEL: Paint("#e8f0ff", "#2858a8"),
    },
    heat=("#fff8ee", "#fde8c8", "#fcd29b", "#fabb7a", "#f7a868"),
    unknown=Paint("#ffffff", "#868f99"),
    backwards=("#1660b8", "#c2410c", "#14753a", "#7a28cb", "#8f5a00", "#b81d63"),
)

DARK = Theme(
    name="dark",
    page="#0d1117",
    ink="#e6edf3",
    soft="#b0bac4",
    code="#c3ccd6",
    arrow="#8b949e",
    alarm="#ff8f87",
    alarm_fill="#4a1a1c",
    accent="#79b8ff",
    group=Paint("#151b23", "#5d6876"),
    kinds={
        NodeKind.LEAF: Paint("#12301b", "#46a35e"),
        NodeKind.POINTWISE: Paint("#122a42", "#5a9fe0"),
        NodeKind.MATMUL: Paint("#271d44", "#9d7ce8"),
        NodeKind.LINALG: Paint("#1c2147", "#8490ec"),
        NodeKind.REDUCTION: Paint("#362a0c", "#cfa12d"),
        NodeKind.POOLING: Paint("#26300f", "#9dbb4a"),
        NodeKind.VIEW: Paint("#1f252d", "#8b949e"),
        NodeKind.INDEX: Paint("#0d2f2d", "#35b3aa"),
        NodeKind.NORMALIZATION: Paint("#3a1a2d", "#d867a9"),
        NodeKind.LOSS: Paint("#3d2014", "#e58057"),
        NodeKind.CUSTOM: Paint("#302812", "#bd9a45"),
        NodeKind.OTHER: Paint("#1b2129", "#7d8791"),
    },
    forms={
        Form.DATA: Paint("#0d1117", "#9aa5b1"),
        Form.SAVED: Paint("#2a2613", "#a8954e"),
        Form.FOLDED: Paint("#232a33", "#9aa5b1"),
        Form.KERNEL: Paint("#152238", "#7fa8e8"),
    },
    heat=("#1a1917", "#2f2318", "#472e18", "#5f3917", "#784516"),
    unknown=Paint("#0d1117", "#7d8791"),
    backwards=("#6cb0ff", "#ff9b6a", "#5fd38d", "#c59bff", "#e3b341", "#ff8ac0"),
)

THEMES = {theme.name: theme for theme in (LIGHT, DARK)}

LEGIBLE = 4.5
"""The contrast that text needs."""

GLYPHS: Mapping[BoxMark, str] = {
    BoxMark.ROOT: "▶",
    BoxMark.FOCUS: "◎",
    BoxMark.NAN_BORN: "✖",
    BoxMark.INF_BORN: "✖",
    BoxMark.NON_FINITE: "△",
    BoxMark.FAILED: "✖",
    BoxMark.NOT_RUN: "○",
    BoxMark.CAPTURED: "◆",
    BoxMark.INSIDE: "◇",
    BoxMark.HOOKED: "⚑",
    BoxMark.WRITES: "✎",
}

ALARMS = frozenset((BoxMark.NAN_BORN, BoxMark.INF_BORN, BoxMark.NON_FINITE, BoxMark.FAILED))
BIRTHS = frozenset((BoxMark.NAN_BORN, BoxMark.INF_BORN, BoxMark.FAILED))


def heat_colour(theme: Theme, heat: float) -> Colour:
    """The colour of a value between 0 and 1."""
    last = len(theme.heat) - 1
    place = min(max(heat, 0.0), 1.0) * last
    index = min(int(place), last - 1)
    return _between(theme.heat[index], theme.heat[index + 1], place - index)


def backward_colour(theme: Theme, number: int) -> Colour:
    """The colour of a backward's arrows, in a picture of several."""
    return theme.backwards[number % len(theme.backwards)]


STRUCTURE_KINDS = (
    NodeKind.POINTWISE,
    NodeKind.LOSS,
    NodeKind.MATMUL,
    NodeKind.REDUCTION,
    NodeKind.INDEX,
    NodeKind.NORMALIZATION,
    NodeKind.POOLING,
    NodeKind.CUSTOM,
)
"""Kinds whose colours stand for structures, in pictures that are coloured by those."""


def structure_paint(theme: Theme, number: int) -> Paint:
    """How boxes of a structure are painted, by its number; NONE: it occurs only once."""
    if number == NONE:
        return theme.unknown
    return theme.kinds[STRUCTURE_KINDS[number % len(STRUCTURE_KINDS)]]


def lane_colour(theme: Theme, number: int) -> Colour:
    """The colour of the bar on boxes that ran on one thread or device, where there are several."""
    return theme.backwards[-1 - number % len(theme.backwards)]


@cache
def contrast(one: Colour, other: Colour) -> float:
    """The contrast of two colours, from 1 to 21, as WCAG defines it."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def on(fill: Colour, colour: Colour, theme: Theme) -> Colour:
    """The colour of a text if it is legible on this fill, or else that of ink."""
    return colour if contrast(colour, fill) >= LEGIBLE else theme.ink


def _luminance(colour: Colour) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _between(low: Colour, high: Colour, share: float) -> Colour:
    parts = (
        round(int(low[i : i + 2], 16) * (1 - share) + int(high[i : i + 2], 16) * share)
        for i in (1, 3, 5)
    )
    return f"#{''.join(f'{part:02x}' for part in parts)}"
