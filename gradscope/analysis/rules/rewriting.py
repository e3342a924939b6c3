"""A line of the user's, written as it should be; and how a place is said in a sentence."""

from __future__ import annotations

import re

from gradscope.analysis.identity.sites import Site

ASSIGNMENT = re.compile(r"^(?P<to>[\w.]+)\s*(?::[^=]+)?=\s*(?P<value>.+)$")
BRACKETS = {"[": "]", "(": ")", "{": "}"}


def at(site: Site) -> str:
    """ " at train.py:41", where it is known."""
    return f" at {site}" if site.place else ""


def rewritten(text: str, holder: str) -> str:
    """`self.layers = nn.ModuleList([…])` for the line `self.layers = […]`; "" if it is no such."""
    found = ASSIGNMENT.match(text.strip().partition("  #")[0].rstrip())
    if found is None or not is_whole(found["value"]):
        return ""
    nn = "torch.nn." if "torch.nn." in text or "nn." not in text else "nn."
    return f"{found['to']} = {nn}{holder}({found['value']})"


def is_whole(text: str) -> bool:
    """Whether what is opened on this line is closed on it."""
    return all(text.count(opens) == text.count(closes) for opens, closes in BRACKETS.items())
