"""How gradients were combined across ranks, as tables."""

from __future__ import annotations

import json
import math
from itertools import groupby

from gradscope.analysis.identity.sites import own_site
from gradscope.analysis.ranks.audit import Audit, AuditedParameter, Combining
from gradscope.analysis.ranks.whose import listed
from gradscope.scene.table_scenes import TableColumn, TableScene
from gradscope.trace.trace import Trace

NOTES = {
    Combining.OWN: "not combined: each rank used its own gradient",
    Combining.UNKNOWN: "cannot be told: sums of elements show how gradients were combined, and "
    "these are about 0",
    Combining.EACH: "times: each rank has a part, and scaled it by another factor",
    Combining.PARTS: "parts: each rank has the gradient of its part; how it was made from those of "
    "other ranks was not seen",
    Combining.EQUAL: "equal: on all ranks; no backward brought gradients to these parameters",
    Combining.NOT_SEEN: "not measured: no gradient, or not in the memory of the CPU",
}


NO_ARRIVALS = "equal: on all ranks; what arrived was not measured (--level values does)"


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
    single = [[one] for one in audit.parameters]
    alike = [[*same] for _, same in groupby(audit.parameters, key=_alike)]
    for found in single if each else alike:
        row = [_names(found), found[0].layout, found[0].words, _norms(found)]
        rows.append((*row, _against(found[0])) if compares else tuple(row))
    site = own_site(trace, audit.stack)
    noted = NOTES if audit.has_arrivals else NOTES | {Combining.EQUAL: NO_ARRIVALS}
    if any(one.how is Combining.UNKNOWN and "Shard" in one.layout for one in audit.parameters):
        noted = noted | {Combining.UNKNOWN: f"{NOTES[Combining.UNKNOWN]}, or fit no one factor"}
    said = (noted[one.how] for one in audit.parameters if one.how in noted)
    notes = dict.fromkeys(each for each in (audit.why, _other_numbers(audit), *said) if each)
    title = f"{audit.optimizer}, step {audit.number}, {listed(audit.ranks)}"
    return TableScene(
        f"{title}: {site.place} {site.text}".rstrip(), tuple(columns), tuple(rows),
        "; ".join(notes),
    )  # fmt: skip


def _other_numbers(audit: Audit) -> str:
    """The numbers of the step on ranks that count it in another way; "": there are none."""
    others = {rank: at for rank, at in audit.numbers.items() if at != audit.number}
    if not others:
        return ""
    shown = ", ".join(f"step {at} of rank {rank}" for rank, at in others.items())
    return f"made after the same collectives as {shown}"


def _alike(one: AuditedParameter) -> tuple[object, ...]:
    return one.layout, one.words, _against(one)


def _names(found: list[AuditedParameter]) -> str:
    if len(found) == 1:
        return found[0].name or "unnamed"
    if not any(one.name for one in found):
        return f"unnamed ({len(found)})"
    return f"{found[0].name or 'unnamed'} … {found[-1].name or 'unnamed'} ({len(found)})"


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
            "numbers": {str(rank): at for rank, at in audit.numbers.items()},
            "why": audit.why,
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
        "factors": {str(rank): factor for rank, factor in one.factors.items()},
        "norms": {str(rank): _number(norm) for rank, norm in one.norms.items()},
        "sums": {str(rank): _number(total) for rank, total in one.sums.items()},
        "against": _number(one.against),
    }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
