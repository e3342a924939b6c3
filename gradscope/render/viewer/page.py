"""The page of a trace, as the bytes of one file."""

from __future__ import annotations

import base64
import hashlib
from functools import cache

from gradscope.errors import RenderingError
from gradscope.render.viewer.css import themes_css
from gradscope.render.viewer.join import FOLDER, script
from gradscope.render.viewer.pack import pack
from gradscope.scene.viewer.text_columns import ViewerScene

LARGEST = 16 << 20
"""Largest size of a page in bytes."""


def page(scene: ViewerScene, theme: str = "") -> bytes:
    """The whole page. `theme`: light, dark, or empty for that of the reader's system."""
    data = pack(scene)
    if len(data) > LARGEST:
        raise RenderingError(
            f"the page would be {len(data) / (1 << 20):.0f} MiB, larger than the limit of 16 MiB; "
            "select a part with --step N or --task N"
        )
    style, code = _style(), script()
    filled = {
        "policy": policy(style, code),
        "theme": theme,
        "style": style,
        "script": code,
    }
    text = (FOLDER / "page.html").read_text(encoding="utf-8")
    for name, value in filled.items():
        text = text.replace("{{" + name + "}}", value, 1)
    before, after = text.split("{{data}}")
    return before.encode() + data + after.encode()


@cache
def _style() -> str:
    return f"\n{themes_css()}{(FOLDER / 'style.css').read_text(encoding='utf-8')}"


def policy(style: str, code: str) -> str:
    """A policy that forbids loading anything, and running anything but this script."""
    return (
        f"default-src 'none'; script-src '{hash_of(code)}'; style-src '{hash_of(style)}'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def hash_of(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
