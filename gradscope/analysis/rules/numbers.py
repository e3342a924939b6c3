"""Rules about the numbers: where they stopped being finite."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.analysis.findings import Certainty, Evidence, Severity
from gradscope.analysis.nonfinite.births import Birth, births
from gradscope.analysis.nonfinite.places import PlaceInWords, Places
from gradscope.analysis.nonfinite.remedies import remedy
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.schema import NONE, Place
from gradscope.trace.trace import Trace


@rule("GS201", "non-finite-birth", Severity.ERROR, needs="values", reads=("value",))
def non_finite_birth(trace: Trace) -> Iterator[Found]:
    """A NaN or an Inf was born: every operand was finite, and the result is not.

    Births are looked for in forward calls, in the backward of nodes, in the sums of gradients
    that arrive at one node, in hooks, in what is added to `.grad`, and in what came from outside.

    Bad:
        x = torch.zeros(3, requires_grad=True)
        x.sqrt().sum().backward()

    Good:
        x = torch.zeros(3, requires_grad=True)
        (x + 1e-12).sqrt().sum().backward()
    """
    places = Places(trace)
    for birth, times in places.grouped(births(trace).births):
        yield _found(birth, places.described(birth), times)


def _found(birth: Birth, place: PlaceInWords, times: int) -> Found:
    more = "once more" if times == 2 else f"{times - 1:,} more times"
    again = f", and {more} there" if times > 1 else ""
    made_of = "born out of Inf" if birth.from_inf else "first seen" if birth.unchecked else "born"
    at = f" ({place.site})" if place.site.place else ""
    why, fix = remedy(place.function, birth)
    return Found(
        message=f"{birth.kind} {made_of} {place.words}{at}: {_counts(birth)}{again}",
        site=place.site,
        evidence=tuple(
            Evidence(table, id)
            for table, id in (
                ("value", birth.value),
                ("node", birth.node),
                ("op", birth.op),
                ("event", birth.seq),
            )
            if id != NONE
        ),
        why=why,
        fix=fix,
        certainty=Certainty.INFERRED if birth.unchecked else Certainty.CERTAIN,
        # An Inf in the data is often meant: a mask of −Inf, the start of a minimum.
        severity=Severity.NOTE if birth.kind == "Inf" and birth.place is Place.LEAF else None,
    )


def _counts(birth: Birth) -> str:
    named = (("NaN", birth.nan), ("+Inf", birth.posinf), ("−Inf", birth.neginf))
    parts = [f"{count} {name}" for name, count in named if count]
    where = f", first at {birth.bad[0]}" if birth.bad and birth.count > 1 else ""
    elements = "element" if birth.count == 1 else "elements"
    return f"{' and '.join(parts)} in {birth.count} {elements}{where}"
