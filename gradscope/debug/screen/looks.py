"""The themes (terminal colours, light, dark) and the layout of panels."""

from __future__ import annotations

from dataclasses import replace

from textual.theme import BUILTIN_THEMES, Theme as Colours

from gradscope.render.theme import DARK, LIGHT, Theme

OWN = "terminal"
"""The theme with the colours of the terminal."""


def _own() -> Colours:
    return replace(BUILTIN_THEMES["ansi-dark"], name=OWN)


def _ours(theme: Theme) -> Colours:
    return Colours(
        name=theme.name, primary=theme.accent, warning=theme.alarm, error=theme.alarm,
        success=theme.accent, accent=theme.accent, foreground=theme.ink, background=theme.page,
        surface=theme.page, panel=theme.page, boost=theme.page, dark=theme is DARK,
    )  # fmt: skip


LOOKS = (_own(), _ours(LIGHT), _ours(DARK))
"""Themes, in the order of the key."""

STYLE = """
Screen { layers: below above; background: $background; color: $foreground; }
#title { height: 1; text-style: bold; }
#said { height: 1; }
#board { height: 1fr; }
#left { width: 1fr; }
#right { width: 1fr; }
Panel {
    background: $background; color: $foreground;
    border: none; border-top: solid $foreground 70%;
    border-title-align: left; padding: 0; scrollbar-size-vertical: 1; overflow-x: hidden;
    scrollbar-background: $background; scrollbar-background-hover: $background;
    scrollbar-background-active: $background; scrollbar-color: $foreground 40%;
    scrollbar-color-hover: $primary; scrollbar-color-active: $primary;
}
Panel:ansi { border-top: solid ansi_bright_black; scrollbar-color: ansi_bright_black; }
Panel:focus { border-top: heavy $primary; border-title-style: bold reverse; }
#left Panel { margin-right: 1; }
#events { height: 11fr; }
#queue { height: 10fr; }
#node { height: 9fr; }
#source { height: 7fr; }
#more { height: 5fr; }
#answer {
    display: none; layer: above; dock: bottom; margin-bottom: 2; height: auto;
    border-top: heavy $primary; overlay: none;
}
Prompt > .input--placeholder, Prompt:focus > .input--placeholder { color: $foreground 70%; }
Prompt:ansi > .input--placeholder { color: ansi_default; text-style: dim; }
#line { height: 1; }
#sign { width: auto; }
Prompt, Prompt:focus { width: 1fr; background: $background; border: none; padding: 0; height: 1; }
"""
