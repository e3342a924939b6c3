"""How gradients were combined across ranks, as tables."""

from __future__ import annotations

import json
import math
from itertools import groupby

from gradscope.analysis.identity.sites import own_site
from gradscope.analysis.ranks.audit import Audit, AuditedParameter, How
from gradscope.analysis.ranks.whose import listed
from gradscope.scene.table_scenes import TableColumn, TableScene
from gradscope.trace.trace import Trace

NOTES = {
    How.OWN: "not combined: each rank used its own gradient",
    How.UNKNOWN: "cannot be told: sums of elements show how gradients were combined, and these are "
    "about 0",
    How.PARTS: "parts: each rank has the gradient of its part; what arrived was not measured",
    How.EQUAL: "equal: on all ranks; what arrived was not measured (--level values does)",
    How.NOT_SEEN: "not measured: no gradient, or not in the memory of the CPU",
}


def audit_table(trace: Trace, audit: Audit, *, each: bool) -> TableScene:
    """One optimizer at one step. Neighbors with the same answer are one row; `each`: not."""
    compares = any(not math.isnan(one.against) for one in audit.parameters)
    columns = [
        TableColumn("parameter"),
        TableColumn("on ranks"),
        TableColumn("gradient", is_main=True),
        TableColumn("norm", is_number=True),
    ]
    if compares:
        columns.append(TableColumn("against"))
    rows = []
    for _, same in groupby(audit.parameters, key=lambda one: id(one) if each else _alike(one)):
        found = list(same)
        row = [_names(found), found[0].layout, found[0].words, _norms(found)]
        rows.append((*row, _against(found[0])) if compares else tuple(row))
    site = own_site(trace, audit.stack)
    notes = dict.fromkeys(NOTES[one.how] for one in audit.parameters if one.how in NOTES)
    title = f"{audit.optimizer}, step {audit.number}, {listed(audit.ranks)}"
    return TableScene(
        f"{title}: {site.place} {site.text}".rstrip(), tuple(columns), tuple(rows),
        "; ".join(notes),
    )  # fmt: skip


def _alike(one: AuditedParameter) -> tuple[object, ...]:
    return one.layout, one.words, _against(one)


def _names(found: list[AuditedParameter]) -> str:
    if len(found) == 1:
        return found[0].name or "unnamed"
    return f"{found[0].name} … {found[-1].name} ({len(found)})"


def _norms(found: list[AuditedParameter]) -> str:
    values = [norm for one in found for norm in one.norms.values() if not math.isnan(norm)]
    if not values:
        return ""
    low, high = f"{min(values):.4g}", f"{max(values):.4g}"
    return low if low == high else f"{low} to {high}"


def _against(one: AuditedParameter) -> str:
    if math.isnan(one.against):
        return "not there"
    return "equal" if abs(one.against - 1) < 0.01 else f"{one.against:.4g} times"


def audit_json(trace: Trace, found: tuple[Audit, ...]) -> str:
    """All parameters, as JSON."""
    shown = [
        {
            "optimizer": audit.optimizer,
            "step": audit.number,
            "site": own_site(trace, audit.stack).place,
            "ranks": list(audit.ranks),
            "parameters": [_said(one) for one in audit.parameters],
        }
        for audit in found
    ]
    return json.dumps({"version": 1, "optimizers": shown}, indent=2) + "\n"


def _said(one: AuditedParameter) -> dict[str, object]:
    return {
        "name": one.name,
        "layout": one.layout,
        "how": one.how.name.lower(),
        "words": one.words,
        "ranks": list(one.ranks),
        "factor": None if math.isnan(one.factor) else one.factor,
        "norms": {str(rank): _number(norm) for rank, norm in one.norms.items()},
        "sums": {str(rank): _number(total) for rank, total in one.sums.items()},
        "against": _number(one.against),
    }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
