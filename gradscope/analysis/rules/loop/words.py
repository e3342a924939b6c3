"""How the rules about loops write lines, counts and optimizers."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gradscope.analysis.findings import Evidence
from gradscope.analysis.identity.sites import Site
from gradscope.analysis.program.loop import LoopMoment

CALLED_ON = re.compile(r"(?P<name>[A-Za-z_][\w.\[\]'\"]*)\.(?:step|zero_grad)\(")


def line(site: Site, otherwise: str) -> str:
    """The user's own line as a quotation; `otherwise` if it is unknown."""
    return f"`{site.text.partition('  #')[0].strip() or otherwise}`"


def called_on(site: Site) -> str:
    """`opt` for the line `opt.step()`."""
    found = CALLED_ON.search(site.text)
    return found["name"] if found else "optimizer"


def often(times: int, of: int, what: str) -> str:
    """As in "in each of 5 steps"."""
    return f"in each of {of} {what}" if times >= of else f"in {times} of {of} {what}"


def evidence(*moments: LoopMoment) -> tuple[Evidence, ...]:
    """Evidence of their rows, each once."""
    return tuple(dict.fromkeys(Evidence(each.table, each.id) for each in moments))


def first(moments: Iterable[LoopMoment]) -> LoopMoment | None:
    return next(iter(moments), None)
