"""Ids of findings, which stay the same when lines move and rows get other ids.

An id is computed from the rule, the file, the text of the line, and the names of the evidence:
nodes, calls, tensors and modules; not from line numbers, ids, counts or the message. Findings for
which all of that is equal are numbered.
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
"""Hexadecimal digits of an id; at least SHORT of them are shown, more where needed."""
SHORT = 4


class Fingerprints:
    """Assigns ids to the findings of one rule in one trace, in order."""

    def __init__(self, trace: Trace, rule: str) -> None:
        self._trace = trace
        self._rule = rule
        self._seen: Counter[tuple[str, ...]] = Counter()

    def next(self, site: Site, rows: Sequence[Evidence], message: str) -> str:
        """The id of the next finding."""
        from hashlib import sha256  # noqa: PLC0415  OpenSSL takes 3 ms; most traces have no finding

        named = *(name for row in rows for name in self._names(row)), " ".join(site.text.split())
        if not any(named):  # only its message distinguishes it
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
    """By id, its shortest unique prefix."""
    distinct = set(ids)
    length = SHORT
    while length < LENGTH and len({id[:length] for id in distinct}) < len(distinct):
        length += 1
    return {id: id[:length] for id in ids}
