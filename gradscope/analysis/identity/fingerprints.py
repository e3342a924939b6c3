"""The id of a finding: what stays the same of it when lines move and rows get other ids.

It is made of the rule, the file, the text of the line, and the names of what the finding rests on:
nodes, calls, tensors and modules. Neither line numbers, ids and counts nor the sentence are in it.
Of findings that have all of that in common each has a number, too: another one more is new.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from gradscope.analysis.findings import Evidence
from gradscope.analysis.identity.sites import Site
from gradscope.analysis.program.modules import module_names
from gradscope.trace.schema import Module, Node, Op, Tensor
from gradscope.trace.trace import Trace

LENGTH = 12
"""Hexadecimal digits of an id; SHORT of them, or as many as tell it from others, are shown."""
SHORT = 4


class Fingerprints:
    """Gives the findings of one rule in one trace their ids, in the order they are found."""

    def __init__(self, trace: Trace, rule: str) -> None:
        self._trace = trace
        self._rule = rule
        self._seen: Counter[tuple[str, ...]] = Counter()

    def next(self, site: Site, rows: Sequence[Evidence], message: str) -> str:
        """The id of the next finding."""
        from hashlib import sha256  # noqa: PLC0415  OpenSSL takes 3 ms; most traces have no finding

        named = *(name for row in rows for name in self._names(row)), " ".join(site.text.split())
        if not any(named):  # nothing but its sentence tells it from others
            named = (re.sub(r"\d[\d,.]*", "", message),)
        parts = (self._rule, site.place.rpartition(":")[0], *named)
        number = self._seen[parts]
        self._seen[parts] += 1
        text = "\0".join((*parts, str(number)))
        return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:LENGTH]

    def _names(self, row: Evidence) -> Iterator[str]:
        trace, id = self._trace, row.id
        if row.table == Node.TABLE and trace.table(Node).has(id):
            node = trace.table(Node).row(id)
            yield from (node.name, self._trace.once(module_names).get(node.module, ""))
        elif row.table == Op.TABLE and trace.table(Op).has(id):
            op = trace.table(Op).row(id)
            yield from (
                op.name.partition(".")[0],
                self._trace.once(module_names).get(op.module, ""),
            )
        elif row.table == Tensor.TABLE and trace.table(Tensor).has(id):
            yield trace.table(Tensor).row(id).name
        elif row.table == Module.TABLE:
            yield self._trace.once(module_names).get(id, "")


def shortened(ids: Sequence[str]) -> dict[str, str]:
    """By id, as few of its first digits as tell it from the others."""
    distinct = set(ids)
    length = SHORT
    while length < LENGTH and len({id[:length] for id in distinct}) < len(distinct):
        length += 1
    return {id: id[:length] for id in ids}
