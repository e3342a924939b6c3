r"""Text from a traced program, made safe to show.

Whatever a program calls its files, functions and modules may hold line breaks, terminal escapes,
and marks that reverse the reading direction of everything around them. `visible` writes those out
(`\n`, `\x1b`, `\u202e`), so that one name stays one stretch of one line, in every format.
"""

from __future__ import annotations

import re

from gradscope.trace.text import visible

__all__ = ["visible", "visible_json", "visible_lines"]

HIDDEN_IN_JSON = re.compile(
    "[\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufffe\uffff]"
)


def visible_lines(text: str) -> str:
    """The text with its line breaks, and all else that cannot be seen written out."""
    return "\n".join(visible(line, len(line)) for line in text.split("\n"))


def visible_json(text: str) -> str:
    r"""The same JSON document, with characters that reorder or hide text as `\u....` escapes."""
    return HIDDEN_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
