r"""Text from a traced program, made safe to show.

Names of files, functions and modules may contain line breaks, terminal escapes, and marks that
reverse the reading direction of the text around them. `visible` escapes those (`\n`, `\x1b`,
`\u202e`), so that a name stays on one line in every format.
"""

from __future__ import annotations

import re

from gradscope.trace.text import visible

__all__ = ["visible", "visible_json", "visible_lines"]

HIDDEN_IN_JSON = re.compile(
    "[\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufffe\uffff]"
)


def visible_lines(text: str) -> str:
    """The text with its line breaks; other invisible characters are escaped."""
    return "\n".join(visible(line, len(line)) for line in text.split("\n"))


def visible_json(text: str) -> str:
    r"""The same JSON document, with characters that reorder or hide text as `\u....` escapes."""
    return HIDDEN_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
