from __future__ import annotations

import pytest

from gradscope.render.theme import GLYPHS, THEMES, Colour, Theme, heat_colour
from gradscope.scene.graph.picture import Form, Mark
from gradscope.scene.kinds import Kind

EVERY_THEME = pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)


def luminance(colour: Colour) -> float:
    """As the accessibility guidelines (WCAG) define it."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: Colour, other: Colour) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def fills(theme: Theme) -> dict[str, Colour]:
    paints = {**theme.kinds, **theme.forms}
    found = {str(name): paint.fill for name, paint in paints.items()}
    found |= {f"heat {i}": heat_colour(theme, i / 10) for i in range(11)}
    return found | {"page": theme.page, "group": theme.group.fill, "alarm": theme.alarm_fill}


@EVERY_THEME
def test_every_kind_and_mark_has_its_colour_or_glyph(theme: Theme) -> None:
    assert set(theme.kinds) == set(Kind)
    assert set(theme.forms) == {Form.SAVED, Form.FOLDED}
    assert set(GLYPHS) == set(Mark)


@EVERY_THEME
def test_text_is_legible_on_every_fill(theme: Theme) -> None:
    for name, fill in fills(theme).items():
        for ink in (theme.ink, theme.code):
            assert contrast(ink, fill) >= 4.5, (name, ink)
        for ink in (theme.soft, theme.accent, theme.alarm):
            assert contrast(ink, fill) >= 3, (name, ink)


@EVERY_THEME
def test_outlines_stand_out_from_the_page(theme: Theme) -> None:
    for kind, paint in theme.kinds.items():
        assert contrast(paint.line, theme.page) >= 2.5, kind


def test_warmth_runs_through_all_its_colours() -> None:
    theme = THEMES["light"]

    assert heat_colour(theme, 0) == theme.heat[0]
    assert heat_colour(theme, 0.5) == theme.heat[2]
    assert heat_colour(theme, 1) == theme.heat[-1]
    assert heat_colour(theme, 1 / 8) == "#fef0db"
    assert heat_colour(theme, -5) == theme.heat[0]
    assert heat_colour(theme, 5) == theme.heat[-1]
