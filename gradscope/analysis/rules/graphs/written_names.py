"""Rules about tensors that have two names, and are written to through one of them."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.identity.sites import Site
from gradscope.analysis.lookups import Ids
from gradscope.analysis.program.calls import Calls
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.rules.structure.losses import READS
from gradscope.analysis.source.files import InSource, SourceFiles
from gradscope.analysis.source.other_names import OtherName, other_names
from gradscope.trace.schema import NONE
from gradscope.trace.trace import Trace


@rule("GS306", "written-under-another-name", reads=(*READS, "source"))
def written_under_another_name(trace: Trace) -> Iterator[Found]:
    """A tensor got a second name, and was then written to in place: both names have the new values.

    `identity = x` makes no copy. An activation with `inplace=True` on `x` changes both, and nothing
    raises if no derivative needs the old values.

    Bad:
        layer = torch.nn.Linear(3, 3)
        x = layer(torch.ones(2, 3))
        identity = x
        out = torch.relu_(x)
        (layer(out) + identity).sum().backward()

    Good:
        layer = torch.nn.Linear(3, 3)
        x = layer(torch.ones(2, 3))
        identity = x
        out = torch.relu(x)
        (layer(out) + identity).sum().backward()
    """
    calls = trace.once(Calls)
    named = {each.site.place: each for each in trace.once(SourceFiles).each(other_names)}
    for few, times in calls.few_of_each_line(_in_place(calls)) if named else ():
        other = named.get(calls.site(few[0]).place)
        for at in few if other is not None else ():
            if other is not None and (read := _read(calls, at, other.found)).place:
                yield _found(calls, at, times, other, read)
                break


def _in_place(calls: Calls) -> Ids:
    names = (each for each in calls.names if each.endswith("_") and not each.endswith("__"))
    return calls.with_tensors(*names)


def _read(calls: Calls, at: int, other: OtherName) -> Site:
    """The line that reads the other name, if it uses what was written there; else none.

    A tensor that the same line created just before has no other name.
    """
    tensor = calls.outputs(at)[0]
    maker = calls.maker(tensor)
    if maker not in (NONE, at) and calls.stack(maker) == calls.stack(at):
        return Site()
    sites = (calls.site(each) for each in calls.users(tensor) if each > at)
    return next((each for each in sites if each.line == other.read), Site())


def _found(calls: Calls, at: int, times: int, other: InSource[OtherName], read: Site) -> Found:
    name = other.found.name
    site, by = calls.site(at), calls.name(at)
    again = f", {times:,} times" if times > 1 else ""
    return Found(
        message=f"`{name}` was changed through its other name: {by}{calls.where(at)} at {site} "
        f"writes in place{again}, so `{name}` has the new values as well",
        site=site,
        evidence=(Evidence("op", calls.id(at)), other.evidence),
        why=f"`{name} = …` gives the same tensor a second name and makes no copy; it is read at "
        f"{read} afterwards",
        fix=f"write out of place there (no `inplace=True`, `{by.rstrip('_')}` for `{by}`), or use "
        f"`{name} = ….clone()`",
        certainty=Certainty.INFERRED,
    )
