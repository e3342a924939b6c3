"""Rules about values: where they stopped being finite."""

from __future__ import annotations

import math
import re
import sys
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gradscope.analysis.findings import Certainty, Evidence, Severity, known_rows
from gradscope.analysis.identity.sharding import Sharding
from gradscope.analysis.identity.sites import at
from gradscope.analysis.identity.steps import steps
from gradscope.analysis.lookups import grouped
from gradscope.analysis.nonfinite.births import Birth, births, may_be_given, not_finite
from gradscope.analysis.nonfinite.lineage import without_operands
from gradscope.analysis.nonfinite.masked import MaskedOut
from gradscope.analysis.nonfinite.places import BirthPlaces, PlaceInWords
from gradscope.analysis.nonfinite.receives import may_be_filled_later
from gradscope.analysis.nonfinite.remedies import remedy
from gradscope.analysis.nonfinite.samples import samples_of
from gradscope.analysis.nonfinite.scaling import Scaling
from gradscope.analysis.nonfinite.zeros import made_zero_by
from gradscope.analysis.ranks import received
from gradscope.analysis.rules.own_line import guarded, instead, rewritten
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.source.files import SourceFiles
from gradscope.analysis.source.values.crossings import crossings
from gradscope.trace.schema import NONE, GraphTask, Op, Place, Tensor, Value
from gradscope.trace.trace import Trace

Ints = NDArray[np.int64]
FEW = 3
"""Number of lines that are named where non-finite data may have entered."""

FOLLOWED = 3
"""Number of locations that are named where a NaN or Inf resulted from another."""


@rule("GS201", "non-finite-birth", Severity.ERROR, needs="values", reads=("value",))
def non_finite_birth(trace: Trace) -> Iterator[Found]:
    """An operation produced a NaN or Inf from finite operands.

    An Inf that may have come from outside, such as a mask of −Inf, is reported only if a NaN, or a
    gradient or loss that is not finite, followed it.

    Gradients that a GradScaler discarded until it had found its scale are not reported. A NaN or
    Inf that reached no loss, no gradient and no parameter that needs one is a note: it was masked
    out, or belongs to a metric. So is one that reached only gradients from `autograd.grad` if all
    later values are finite, and one in memory that the same line receives from another rank.

    A NaN produced from an Inf is reported with the origin of that Inf, and so is the backward of a
    call whose own result was not finite. Gradients that overflow in one backward are reported once.

    The rule checks results of forward calls, gradients produced by nodes, sums of gradients at the
    input of a node, results of hooks, additions to `.grad`, and data from outside.

    Bad:
        x = torch.zeros(3, requires_grad=True)
        x.sqrt().sum().backward()

    Good:
        x = torch.zeros(3, requires_grad=True)
        (x + 1e-12).sqrt().sum().backward()
    """
    places, harm, scaling = BirthPlaces(trace), _last_harm(trace), Scaling(trace)
    found = [
        birth
        for birth in births(trace).births
        if not (may_be_given(birth) and birth.t > harm)
        and not scaling.threw_away(birth.t, in_backward=birth.task != NONE)
    ]
    last = _last_reached(trace)
    first = dict[int, Birth]()
    for birth in found:
        first.setdefault(birth.cause, birth)
    after = _after(found, first, places)
    told_of: list[_Told] = []
    masked = _masked(trace, first.values(), places) - after.keys()
    for birth, times in places.grouped(first.values()):
        place = places.described(birth)
        told = _found(places, birth, place, times)
        harmless = _harmless(trace, birth, last, masked_out=places.key(birth) in masked)
        if not harmless and may_be_filled_later(trace, birth, place.site.place):
            harmless = "this line also receives tensors, and may have filled it later"
        if harmless:
            message = f"{told.message}; {harmless}"
            told = replace(told, message=message, severity=Severity.NOTE)
        cause = next((each for each in told_of if each.led_to(birth, place, told)), None)
        if cause is None:
            told_of.append(_Told(birth, place, told, [*after[places.key(birth)]]))
        else:
            cause.followed.extend((birth, *after[places.key(birth)]))
    told_of = [*_by_line(told_of)]
    alone = all(each.found.severity is Severity.NOTE for each in told_of)
    reaches = alone and _a_loss_is_not_finite(trace)
    for each in told_of:
        given = each.birth.kind == "Inf" and each.birth.place is Place.LEAF
        one = each.folded(places)
        yield replace(one, severity=None) if reaches and given and each.birth.t <= last else one


def _harmless(trace: Trace, birth: Birth, last: int, *, masked_out: bool) -> str:
    """Why a birth did no harm; "": it did, or that is not known."""
    if birth.t > last:
        return "it reached no gradient"
    if masked_out:
        return "it was masked out: it reached no loss and no gradient"
    if _led_nowhere(trace, birth.t):
        return "it reached only gradients from autograd.grad, and later values are finite"
    return ""


def _masked(trace: Trace, all_: Iterable[Birth], places: BirthPlaces) -> set[Hashable]:
    """The locations at which all that originated was masked out in the forward."""
    masked = trace.once(MaskedOut)
    groups = grouped(all_, places.key)
    return {key for key, each in groups.items() if all(map(masked.holds, each))}


def _by_line(told_of: list[_Told]) -> Iterator[_Told]:
    """One finding for each line and severity: the first observed origin, with the others.

    If a line has several calls, a non-finite result of one makes others non-finite.
    """
    lines: dict[Hashable, list[_Told]] = defaultdict(list)
    for place, each in enumerate(told_of):
        lines[each.place.site.place or place, each.found.severity].append(each)
    for several in lines.values():
        first = min(several, key=lambda each: each.birth.unchecked > 0)
        others = [each for each in several if each is not first]
        yield first.beside(others) if others else first


def _after(
    found: list[Birth], first: dict[int, Birth], places: BirthPlaces
) -> defaultdict[Hashable, list[Birth]]:
    """Births that resulted from other births, by the location of the latter."""
    after: defaultdict[Hashable, list[Birth]] = defaultdict(list)
    for birth in found:
        if birth is not first[birth.cause]:
            after[places.key(first[birth.cause])].append(birth)
    return after


def _out_of(birth: Birth) -> str:
    return " (produced from an Inf)" if birth.from_inf else ""


@dataclass(frozen=True, slots=True)
class _Told:
    """A birth and what resulted from it: one cause, reported once."""

    birth: Birth
    place: PlaceInWords
    found: Found
    followed: list[Birth]
    others: int = 0  # births of other calls of its line

    def led_to(self, birth: Birth, place: PlaceInWords, found: Found) -> bool:
        """Whether a birth is the derivative, on the same line, of this function at its limit."""
        if not place.site.place or place.site.place != self.place.site.place:
            return False
        derived = birth.place is not self.birth.place and _function(place) == _function(self.place)
        return found.severity is self.found.severity and derived

    def folded(self, places: BirthPlaces) -> Found:
        """The finding, with the locations that the NaN or Inf spread to."""
        others = [birth for birth, _ in places.grouped(self.followed)]
        if not others:
            return self.found
        words = [
            f"{birth.kind}{_out_of(birth)} {place.words}{self._elsewhere(place)}"
            for birth in others
            for place in [places.described(birth)]
        ]
        named = list(dict.fromkeys(words))
        more = len(named) - FOLLOWED
        rest = f", and {more:,} more" if more > 0 else ""
        cause = "them" if self.others else "it"
        then = ", then ".join(named[:FOLLOWED])
        why = f"{self.found.why}; what followed from {cause}: {then}{rest}"
        rows = (Evidence(Value.TABLE, birth.value) for birth in others)  # the text has no ids
        return replace(self.found, why=why, evidence=(*self.found.evidence, *rows))

    def beside(self, others: list[_Told]) -> _Told:
        """The same finding, with other origins on its line."""
        words = [f"{each.birth.kind} {each.place.words}" for each in others]
        named = list(dict.fromkeys(words))
        more = len(named) - FOLLOWED
        rest = f", and {more:,} more" if more > 0 else ""
        also = f"also first produced on this line: {', '.join(named[:FOLLOWED])}{rest}"
        why = f"{self.found.why}; {also}"
        rows = (row for each in others for row in each.found.evidence)
        return replace(
            self,
            found=replace(self.found, why=why, evidence=(*self.found.evidence, *rows)),
            followed=[*self.followed, *(birth for each in others for birth in each.followed)],
            others=len(others),
        )

    def _elsewhere(self, place: PlaceInWords) -> str:
        same = place.site.place == self.place.site.place
        return " (the same line)" if same else at(place.site)


def _function(place: PlaceInWords) -> str:
    """As in "log", of the call and of its node."""
    return re.sub(r"(Backward\d*)?_?$", "", place.function).lower()


def _last_harm(trace: Trace) -> int:
    """When there was last a NaN, or a gradient or loss that is not finite; NONE: never.

    A NaN from a call that created no node does harm where it is used.
    """
    values, ops = trace.table(Value), trace.table(Op)
    infinite = values["posinf"] + values["neginf"] > 0
    alone = np.isin(values["op"], ops["id"][without_operands(trace)])
    harm = ((values["nan"] > 0) & ~alone) | (infinite & _matters(trace))
    return int(values["t"][harm].max(initial=NONE))


def _a_loss_is_not_finite(trace: Trace) -> bool:
    """Whether a backward began at a value that is not finite."""
    return bool((not_finite(trace.table(Value)) & _of_losses(trace)).any())


def _of_losses(trace: Trace, tasks: Ints | None = None) -> NDArray[np.bool_]:
    """The values of results at which backwards began: of these backwards, or of all."""
    values, ops, all_ = trace.table(Value), trace.table(Op), trace.table(GraphTask)
    roots = all_.ragged("roots")
    if tasks is not None:
        roots = roots.take(np.flatnonzero(np.isin(all_["id"], tasks)))
    losses = ops["id"][np.isin(ops["node"], roots.values) & (ops["node"] != NONE)]
    began: NDArray[np.bool_] = np.isin(values["op"], losses) & (values["op"] != NONE)
    return began


def _led_nowhere(trace: Trace, t: int) -> bool:
    """Whether only gradients that `autograd.grad` returned can have resulted from a birth.

    That is so if the next backward that fills `.grad` or creates a graph begins at a finite value,
    and all values are finite from there on. PyTorch's pipelines run each part once like this, on
    uninitialized memory, to learn shapes.
    """
    tasks, values = trace.table(GraphTask), trace.table(Value)
    fills = (tasks["accumulate_grad"] != 0) | (tasks["create_graph"] != 0)
    later = tasks["begin"][fills & (tasks["begin"] > t)]
    if not len(later):
        return False
    filling = tasks["id"][fills]
    counts = _of_losses(trace, filling) | np.isin(values["task"], filling)
    counts = (counts & (values["t"] >= t)) | (values["t"] > later.min())
    return not (counts & not_finite(values)).any()


def _last_reached(trace: Trace) -> int:
    """When a loss, a gradient or a parameter was last not finite.

    Without any backward, the end of time: it is unknown what the values are used for.
    """
    values = trace.table(Value)
    if not len(trace.table(GraphTask)):
        return sys.maxsize
    wrong = not_finite(values)
    return int(values["t"][wrong & (_matters(trace) | _of_parameters(trace))].max(initial=NONE))


def _matters(trace: Trace) -> NDArray[np.bool_]:
    """The values that belong to backwards, or at which one began."""
    forward = np.isin(trace.table(Value)["place"], (Place.LEAF, Place.OP_OUTPUT))
    return ~forward | _of_losses(trace)


def _of_parameters(trace: Trace) -> NDArray[np.bool_]:
    """Which values belong to leaves that need a gradient."""
    values, tensors = trace.table(Value), trace.table(Tensor)
    parameters = tensors["id"][(tensors["leaf"] != 0) & (tensors["requires_grad"] != 0)]
    return np.isin(values["tensor"], parameters)


def _came_in(trace: Trace, birth: Birth) -> str:
    """Where the program creates tensors from data, which may be where these values entered."""
    tensors, every = trace.table(Tensor), trace.once(SourceFiles).each(crossings)
    name = tensors.row(birth.tensor).name if tensors.has(birth.tensor) else ""
    its = [each for each in every if name and each.found.name == name] or every
    lines = list(dict.fromkeys(f"{each.site} ({each.found.by})" for each in its))
    if not lines:
        return ""
    more = f", and {len(lines) - FEW} more lines" if len(lines) > FEW else ""
    return f"; tensors are created from data at {', '.join(lines[:FEW])}{more}"


def _found(places: BirthPlaces, birth: Birth, place: PlaceInWords, times: int) -> Found:
    trace = places.trace
    later = f"{times - 1:,} later run{'s' * (times > 2)}"
    again = f"; the same again in {later}" if times > 1 else ""
    made_of = "first seen" if birth.unchecked else "first produced"
    made_of = "produced from an Inf" if birth.from_inf else made_of
    where = f" ({place.site})" if place.site.place else ""
    why, fix = remedy(place.function, birth)
    better = _guarded(place, birth)
    fix = instead(better, place.site.text) if better else fix
    zeros = made_zero_by(trace, birth) if _function(place) in AT_ZERO else ("", "")
    if zeros[0]:
        why += f"; {zeros[0]}{zeros[1]} set its argument to 0"
        fix += f"; elements that {zeros[0]} set to 0 get no gradient there: use softplus instead"
    if birth.place is Place.LEAF and birth.node == NONE:
        origin = places.origin(birth)
        unknown = origin is None and not trace.table(Op).has(birth.op)
        why += _came_in(trace, birth) if unknown else places.used_first(birth)
        if received.may_be_received(trace, [birth.tensor]):
            why, fix = received.WHY, received.FIX
    return Found(
        message=f"{birth.kind} {made_of} {place.words}{where}{_in_step(trace, birth.step)}: "
        f"{_counts(trace, birth)}{samples_of(trace, birth)}{again}",
        site=place.site,
        evidence=_evidence(birth),
        why=why,
        fix=fix,
        certainty=Certainty.INFERRED if birth.unchecked else Certainty.CERTAIN,
        rewrite=rewritten(place.site, better, "values near the limit will change"),
        # An Inf in the data is often intended: a mask of −Inf, the start of a minimum.
        severity=Severity.NOTE if birth.kind == "Inf" and birth.place is Place.LEAF else None,
    )


def _in_step(trace: Trace, step: int) -> str:
    numbers = {each.id: each.number for each in steps(trace)}
    return f" in step {numbers[step]}" if len(numbers) > 1 and step in numbers else ""


AT_ZERO = ("log", "log2", "log10", "sqrt", "rsqrt", "reciprocal")
"""Functions that are not finite, or have no finite derivative, at zero."""

GUARDS = {
    "log": "{}.clamp_min(1e-12)",
    "sqrt": "{}.clamp_min(1e-12)",
    "rsqrt": "{}.clamp_min(1e-12)",
    "acos": "{}.clamp(-1 + 1e-6, 1 - 1e-6)",
    "asin": "{}.clamp(-1 + 1e-6, 1 - 1e-6)",
}
"""Expressions that keep an argument inside the function's domain."""


def _guarded(place: PlaceInWords, birth: Birth) -> str:
    """The user's own line with the argument kept inside the domain; "" where that is unknown."""
    name = _function(place)
    if name not in GUARDS or birth.from_inf or birth.unchecked:
        return ""
    return guarded(place.site.text, (name, f"arc{name[1:]}"), GUARDS[name])


def _evidence(birth: Birth) -> tuple[Evidence, ...]:
    rows = ("value", birth.value), ("node", birth.node), ("op", birth.op), ("event", birth.seq)
    return known_rows(*rows)


def _place(trace: Trace, birth: Birth) -> str:
    """The first bad element: "index (3, 0, 0)", or "flat index 12" if its shape is unknown."""
    ops, tensors, tensor = trace.table(Op), trace.table(Tensor), birth.tensor
    if tensor == NONE and birth.place is Place.OP_OUTPUT and ops.has(birth.op):
        outputs = ops.row(birth.op).outputs
        tensor = outputs[birth.index] if 0 <= birth.index < len(outputs) else NONE
    shape = tensors.row(tensor).shape if tensors.has(tensor) else ()
    shard, of = trace.once(Sharding).shards.get(tensor), ""
    if shard is not None:
        shape, of = shard.local, " of the part on this rank"
    known, first = math.prod(shape) == birth.count, birth.bad[0]
    if len(shape) < 2 or not known:
        return f"{'index' if len(shape) == 1 and known else 'flat index'} {first}{of}"
    return f"index ({', '.join(str(int(each)) for each in np.unravel_index(first, shape))}){of}"


def _counts(trace: Trace, birth: Birth) -> str:
    named = (("NaN", birth.nan), ("+Inf", birth.posinf), ("−Inf", birth.neginf))
    parts = [f"{count} {name}" for name, count in named if count]
    if birth.count == 1:
        return f"the only element is {parts[0].partition(' ')[2]}"
    where = f", first at {_place(trace, birth)}" if birth.bad else ""
    if len(parts) > 1:
        return f"{' and '.join(parts)} among {birth.count} elements{where}"
    count, name = parts[0].split()
    if int(count) == birth.count:
        return f"all {count} elements are {name}{where}"
    return f"{count} of {birth.count} elements {'is' if count == '1' else 'are'} {name}{where}"
