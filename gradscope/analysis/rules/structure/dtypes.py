"""Rules about unintended dtypes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from gradscope.analysis.findings import Evidence, Severity
from gradscope.analysis.identity.sites import Site, is_installed
from gradscope.analysis.lookups import grouped
from gradscope.analysis.program.acts import Acts, Done, Origins
from gradscope.analysis.program.calls import SAME_NUMBERS, Calls
from gradscope.analysis.rules.own_line import code_of, instead, rewritten
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.rules.structure.losses import READS
from gradscope.analysis.source.files import InSource, SourceFiles
from gradscope.analysis.source.values.crossings import crossings
from gradscope.analysis.source.values.interpolations import Interpolated, interpolated
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, TruncatedAct
from gradscope.trace.trace import Trace

HALVES = {"float16": 2048, "bfloat16": 256}
"""The value at which a running sum of ones stops growing."""
LONG_SUM = 32
DOUBLE = re.compile(r"float64|[dD]ouble|from_numpy|\bnp\.")
SINGLE = re.compile(r"float32|\.float\(")
FAR, FEW = 16, 2


@rule("GS705", "dtype-creep", reads=READS)
def dtype_creep(trace: Trace) -> Iterator[Found]:
    """Values became float64 without a cast, or a long sum is computed in half precision.

    One float64 tensor (NumPy creates these by default) turns all later results into float64. These
    need twice the memory and are slower. A sum in half precision stops growing: 2048 + 1 is 2048.

    Bad:
        w = torch.ones(3, requires_grad=True)
        table = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)
        (w * 2 + table).sum().backward()

    Good:
        w = torch.ones(3, requires_grad=True)
        table = torch.tensor([0.1, 0.2, 0.3])
        (w * 2 + table).sum().backward()
    """
    calls = trace.once(Calls)
    yield from _became_double(calls)
    yield from _summed_in_half(calls)


def _became_double(calls: Calls) -> Iterator[Found]:
    if not len(calls.tensors):
        return
    doubles = [id for id in distinct(calls.tensors["dtype"]).tolist()
               if calls.trace.text(id) == "float64"]  # fmt: skip
    outputs = calls.ops.ragged("outputs")
    place = calls.tensors.positions(outputs.values)
    double = (place != NONE) & np.isin(calls.tensors["dtype"][place], doubles)
    places = distinct(outputs.owners[double])
    places = places[(calls.ops["node"][places] != NONE) & calls.is_forward[places]]
    for few, times in calls.few_of_each_line(places):
        for at in few:
            small = [t for t in calls.inputs(at)
                     if calls.dtype(t) == "float32" and calls.needs_grad(t)]  # fmt: skip
            if (
                small
                and calls.name(at) not in SAME_NUMBERS
                and calls.shape(calls.outputs(at)[0]) != ()
                and not any(calls.dtype(t) == "float64" and calls.needs_grad(t)
                            for t in calls.inputs(at))
            ):  # fmt: skip
                yield _creep(calls, at, times)
                break


def _creep(calls: Calls, at: int, times: int) -> Found:
    site = calls.site(at)
    given = [t for t in calls.inputs(at) if calls.dtype(t) == "float64"]
    what = "another operand"
    made: list[Site] = []
    if given:
        name = calls.trace.text(int(calls.tensors["name"][calls.tensors.index(given[0])]))
        made = _made(calls, given[0])
        what = f"`{name}`" if name else what
        what += f", created at {made[0]}," if made else ""
    brought = _brought(calls.trace, {site.place, *(each.place for each in made[:1])})
    brought = brought or [each for each in made[-1:] if each.place != made[0].place]
    from_ = f"; float64 is created at {' and '.join(each.place for each in brought)}"
    return Found(
        message=f"float32 became float64 at {site}: {what} is float64, and so are all later "
        f"results{from_ if brought else ''}",
        site=site,
        evidence=(Evidence("op", calls.id(at)),),
        why=f"{calls.name(at)} received float32 and returned float64 without a cast, "
        f"{times:,} times; float64 comes from NumPy's arrays, `dtype=torch.float64` and Python's "
        "floats in arrays",
        fix="make the other operand float32 where it is created: `.float()`, or "
        "`dtype=torch.float32`",
        severity=Severity.NOTE if is_installed(site.file) else None,
    )


def _made(calls: Calls, tensor: int) -> list[Site]:
    """The lines that created a tensor, and its operands as far back as they were float64."""
    found, origins = [], calls.trace.once(Origins)
    for _ in range(FAR):
        maker, origin = calls.maker(tensor), origins.of(tensor)
        site = calls.site(maker) if maker != NONE else origin.site if origin else Site()
        found += [site] if site.place else []
        of = calls.inputs(maker) if maker != NONE else []
        older = [each for each in of if each != tensor and calls.dtype(each) == "float64"]
        if not older:
            break
        tensor = older[0]
    return found


def _brought(trace: Trace, told: set[str]) -> list[Site]:
    """Lines that create float64 tensors from data; none, if many do."""
    found = [each.site for each in trace.once(SourceFiles).each(crossings)]
    found = [each for each in found if DOUBLE.search(each.text) and not SINGLE.search(each.text)]
    places = {each.place: each for each in found}
    return [*places.values()] if len(places) <= FEW and told.isdisjoint(places) else []


def _summed_in_half(calls: Calls) -> Iterator[Found]:
    for few, times in calls.few_of_each_line(calls.called("add", "add_")):
        if times < LONG_SUM:
            continue
        at, length, dtype = few[0], 1, calls.dtype(calls.outputs(few[0])[0])
        if dtype not in HALVES:
            continue
        while length < LONG_SUM:
            users = calls.users(calls.outputs(at)[0])
            # a residual is also used by what is added to it; a running sum by nothing else
            if len(users) != 1 or calls.stack(users[0]) != calls.stack(at):
                break
            at, length = users[0], length + 1
        if length >= LONG_SUM:
            site = calls.site(few[0])
            yield Found(
                message=f"A running sum at {site} is kept in {dtype}: more than {length - 1} terms "
                "were added one after the other",
                site=site,
                evidence=(Evidence("op", calls.id(few[0])), Evidence("op", calls.id(at))),
                why=f"in {dtype} a sum of ones stops growing at {HALVES[dtype]:,}: terms that are "
                "small compared with the sum are rounded away, without any Inf",
                fix="keep the sum in float32 and cast the result: `total = torch.zeros(…)`, "
                "`total = total + x.float()`",
            )


MEANT = re.compile(r"round|floor|ceil|trunc|rand|0?\.5|//|[*/]")
"""In a line that turns fractions into whole numbers on purpose."""

NARROW = 3.0
"""Values in a smaller range than this lose most of their information."""


@rule("GS718", "truncated", reads=("act",))
def truncated(trace: Trace) -> Iterator[Found]:
    """Different fractions became the same whole number: `long()` truncates toward zero.

    Scores between 0 and 1 all become 0. It is a note where they become a few different numbers,
    because class labels may be made this way; but not where class numbers were interpolated, as
    when a mask is resized: a number between two classes is another class.

    Bad:
        scores = torch.tensor([0.2, 0.9, 0.4])
        torch.nn.functional.mse_loss(torch.zeros(3, requires_grad=True), scores.long().float())

    Good:
        scores = torch.tensor([0.2, 0.9, 0.4])
        torch.nn.functional.mse_loss(torch.zeros(3, requires_grad=True), scores)
    """
    acts = trace.once(Acts)
    resized = {each.site.place: each for each in trace.once(SourceFiles).each(interpolated)}
    for found in grouped(acts.of(TruncatedAct), lambda act: act.stack).values():
        low = min(each.facts.low for each in found)
        high = max(each.facts.high for each in found)
        to = sorted({number for each in found for number in each.facts.to})
        site = acts.site(found[0])
        made = resized.get(site.place)
        if made is not None and _are_mostly_whole(found):
            yield _between_classes(site, found, made)
            continue
        narrow = high - low <= NARROW and low < high
        if narrow and to and max(each.facts.many for each in found) > 1:
            yield _cut_off(site, found, (low, high), to)


def _are_mostly_whole(found: list[Done[TruncatedAct]]) -> bool:
    """Whether most values were whole numbers: those inside of regions of one class."""
    return 2 * sum(each.facts.whole for each in found) > sum(each.facts.many for each in found)


def _between_classes(
    site: Site, found: list[Done[TruncatedAct]], made: InSource[Interpolated]
) -> Found:
    by, many = found[0].facts.by, sum(each.facts.many for each in found)
    fractions = many - sum(each.facts.whole for each in found)
    there, mode = made.file.site(made.found.at), made.found.mode
    return Found(
        message=f"Whole numbers are interpolated: interpolate(mode={mode!r}) at {there} makes "
        f"{fractions:,} of {many:,} values fractions, which {by}() at {site} truncates",
        site=there,
        evidence=(*(Evidence("act", each.id) for each in found[:3]), made.evidence),
        why="a value between two class numbers becomes the number of another class, at every "
        "border of a mask",
        fix='use `mode="nearest"` there, without align_corners, for class numbers',
    )


def _cut_off(
    site: Site, found: list[Done[TruncatedAct]], lies: tuple[float, float], to: list[int]
) -> Found:
    by, (low, high) = found[0].facts.by, lies
    all_ = f"all become {to[0]}" if len(to) == 1 else f"they become {to[0]} to {to[-1]}"
    plain = code_of(site.text)
    better = plain.replace(f".{by}()", "")
    return Found(
        message=f"Fractions are truncated: {by}() at {site} receives values from {low:g} to "
        f"{high:g}, and {all_}",
        site=site,
        evidence=tuple(Evidence("act", each.id) for each in found[:3]),
        why=f"{by}() drops the fractional part"
        + (": nothing is left that distinguishes these values" if len(to) == 1 else ""),
        fix=instead(better, plain) if better != plain else "keep them as floats",
        rewrite=rewritten(site, better, "it may be meant: then the values are counts or indices"),
        severity=None if len(to) == 1 and not MEANT.search(plain) else Severity.NOTE,
    )
