"""Draw the debugger's screen, as a terminal shows it, for docs/guide/debugger.md.

python tools/docs/screen.py
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from gradscope.debug.screen.app import Debugger
from gradscope.debug.walk import Walk

DOCS = Path(__file__).resolve().parents[2] / "docs"
TRACE = DOCS / "gallery" / "nan_in_backward.json"
PICTURE = DOCS / "images" / "screen.svg"
SIZE = (110, 32)
KEYS = ("t", "t", "x", "5")
"""Dark, and at the first finding."""
FROM_ELSEWHERE = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
"""Fonts that would be fetched: what a reader has serves."""


async def drawn() -> str:
    """What is seen after those keys, as SVG."""
    app = Debugger(Walk(TRACE))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press(*KEYS)
        await pilot.pause()
        picture = app.export_screenshot(title="gradscope debug trace.json")
    return FROM_ELSEWHERE.sub("", picture).replace("<svg ", '<svg xml:space="preserve" ', 1)


if __name__ == "__main__":
    PICTURE.write_text(asyncio.run(drawn()), encoding="utf-8")
    print(f"wrote {PICTURE.relative_to(DOCS.parent)}")
