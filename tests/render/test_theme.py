from __future__ import annotations

import pytest

from gradscope.render.theme import GLYPHS, THEMES, Colour, Theme, contrast, heat_colour, on
from gradscope.scene.kinds import BoxMark, Form, NodeKind

EVERY_THEME = pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)


def fills(theme: Theme) -> dict[str, Colour]:
    paints = {**theme.kinds, **theme.forms}
    found = {str(name): paint.fill for name, paint in paints.items()}
    found |= {f"heat {i}": heat_colour(theme, i / 10) for i in range(11)}
    return found | {"page": theme.page, "group": theme.group.fill, "alarm": theme.alarm_fill}


@EVERY_THEME
def test_every_kind_and_mark_has_its_colour_or_glyph(theme: Theme) -> None:
    assert set(theme.kinds) == set(NodeKind)
    assert set(theme.forms) == {Form.DATA, Form.SAVED, Form.FOLDED, Form.KERNEL}
    assert set(GLYPHS) == set(BoxMark)


@EVERY_THEME
def test_text_is_legible_on_every_fill(theme: Theme) -> None:
    warm = {name: fill for name, fill in fills(theme).items() if name.startswith("heat")}
    for name, fill in fills(theme).items():
        for ink in (theme.ink, theme.code):
            assert contrast(ink, fill) >= 4.5, (name, ink)
        for ink in (theme.soft, theme.accent, theme.alarm):
            assert contrast(ink, fill) >= 4.5 or name in warm, (name, ink)
            assert contrast(on(fill, ink, theme), fill) >= 4.5, (name, ink)


@EVERY_THEME
def test_lines_stand_out_from_what_they_are_drawn_on(theme: Theme) -> None:
    paints = {**theme.kinds, **theme.forms, "group": theme.group, "unknown": theme.unknown}
    for name, paint in paints.items():
        for ground in (theme.page, theme.group.fill, paint.fill):
            assert contrast(paint.line, ground) >= 3, (name, ground)
    for line in (theme.arrow, theme.soft, theme.accent, theme.alarm, *theme.backwards):
        for ground in (theme.page, theme.group.fill):
            assert contrast(line, ground) >= 3, (line, ground)


def test_contrast_is_that_of_the_guidelines() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_warmth_runs_through_all_its_colours() -> None:
    theme = THEMES["light"]

    assert heat_colour(theme, 0) == theme.heat[0]
    assert heat_colour(theme, 0.5) == theme.heat[2]
    assert heat_colour(theme, 1) == theme.heat[-1]
    assert heat_colour(theme, 1 / 8) == "#fef0db"
    assert heat_colour(theme, -5) == theme.heat[0]
    assert heat_colour(theme, 5) == theme.heat[-1]
