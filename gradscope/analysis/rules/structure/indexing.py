"""Rules about indexing by tensors: every row by all labels, or duplicate indices."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.program.calls import Calls
from gradscope.analysis.rules.own_line import code_of
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.rules.structure.losses import READS
from gradscope.trace.trace import Trace

ADDS = re.compile(r"^(?P<to>[\w.]+)\[(?P<at>[^\[\]:,]+)\]\s*(?P<sign>[+-])=\s*(?P<what>.+)$")
REDUCED = frozenset(("mean", "sum"))
PASSED = frozenset(("neg", "mul", "div", "add", "sub", "rsub", "exp", "log", "pow", "clamp"))
FAR = 32


@rule("GS715", "cross-indexed", reads=READS)
def cross_indexed(trace: Trace) -> Iterator[Found]:
    """Every row was indexed by the labels of all rows: N × N values instead of one for each row.

    `log_probs[:, labels]` takes from each row the columns of all labels. Their mean depends only on
    how often a class occurs, whatever the row is.

    Bad:
        scores = torch.nn.Linear(2, 3)(torch.arange(10.0).reshape(5, 2)).log_softmax(1)
        labels = torch.tensor([0, 1, 2, 1, 0])
        (-scores[:, labels].mean()).backward()

    Good:
        scores = torch.nn.Linear(2, 3)(torch.arange(10.0).reshape(5, 2)).log_softmax(1)
        labels = torch.tensor([0, 1, 2, 1, 0])
        (-scores[torch.arange(5), labels].mean()).backward()
    """
    calls = trace.once(Calls)
    for few, times in calls.few_of_each_line(calls.with_tensors("index", "index_select")):
        for at in few:
            if _takes_all_columns(calls, at) and _is_averaged(calls, at):
                yield _cross(calls, at, times)
                break


def _takes_all_columns(calls: Calls, at: int) -> bool:
    """Whether (N, C) was indexed by N labels along its columns, which gives (N, N)."""
    inputs = calls.inputs(at)
    before, after = calls.shape(inputs[0]), calls.shape(calls.outputs(at)[0])
    if len(before) != 2 or len(after) != 2 or before[0] < 2:
        return False
    rows, columns = before
    labels = [calls.shape(each) for each in inputs[1:]]
    return after == (rows, rows) and columns != rows and labels in ([(rows,)], [])


def _is_averaged(calls: Calls, at: int) -> bool:
    """Whether all N × N values are summed or averaged to one number, each used separately."""
    pending, seen = [at], {at}
    while pending and len(seen) < FAR:
        for each in calls.following(pending.pop()):
            name = calls.name(each)
            if name in REDUCED and calls.shape(calls.outputs(each)[0]) == ():
                return True
            if name in PASSED and each not in seen:
                seen.add(each)
                pending.append(each)
            elif name not in PASSED:
                return False
    return False


def _cross(calls: Calls, at: int, times: int) -> Found:
    site, (rows, columns) = calls.site(at), calls.shape(calls.inputs(at)[0])
    again = f"; the line ran {times:,} times" if times > 1 else ""
    found = re.search(r"(?P<of>[\w.]+)\[:, *(?P<by>[\w.]+)\]", code_of(site.text))
    better = ""
    if found:
        each = f"{found['of']}[torch.arange(len({found['by']})), {found['by']}]"
        better = code_of(site.text).replace(found[0], each)
    return Found(
        message=f"Indexing at {site} takes the columns of all {rows} labels from every row: "
        f"({rows}, {rows}) values from ({rows}, {columns}), instead of one for each row{again}",
        site=site,
        evidence=(Evidence("op", calls.id(at)),),
        why=f"`[:, labels]` pairs each of {rows} rows with each of {rows} labels, and all "
        f"{rows * rows:,} results are averaged into the loss",
        fix=f"write `{better}`"
        if better
        else "also index the rows: `x[torch.arange(N), labels]`, or `x.gather(1, labels[:, None])`",
        certainty=Certainty.INFERRED,
    )


@rule("GS716", "duplicates-lost", reads=(*READS, "node.arguments"))
def duplicates_lost(trace: Trace) -> Iterator[Found]:
    """`total[index] += values` keeps only one of the values if an index occurs more than once.

    It reads, adds and writes back: of several values for one index, only the last one written
    stays. The rule reports it if there are more values than indices: some must be duplicates.

    Bad:
        values, index = torch.ones(5, requires_grad=True), torch.tensor([0, 1, 1, 2, 2])
        total = torch.zeros(3)
        total[index] += values * 2
        total.sum().backward()

    Good:
        values, index = torch.ones(5, requires_grad=True), torch.tensor([0, 1, 1, 2, 2])
        total = torch.zeros(3)
        total = total.index_add(0, index, values * 2)
        total.sum().backward()
    """
    calls = trace.once(Calls)
    for few, times in calls.few_of_each_line(calls.with_tensors("index_put_", "index_put")):
        for at in few:
            adds = ADDS.match(code_of(calls.site(at).text))
            many = _more_than_places(calls, at) if adds else None
            if adds and many and calls.given(at).get("accumulate") is False:
                yield _lost(calls, at, adds, many, times)
                break


def _more_than_places(calls: Calls, at: int) -> tuple[int, int] | None:
    """How many values go to how many elements; None if duplicates are not certain."""
    target = calls.shape(calls.outputs(at)[0])
    for each in calls.inputs(at):
        own = calls.shape(each)
        if own[1:] == target[1:] and own[:1] > target[:1] and len(own) == len(target):
            return own[0], target[0]
    return None


def _lost(calls: Calls, at: int, adds: re.Match[str], many: tuple[int, int], times: int) -> Found:
    site, (values, places) = calls.site(at), many
    to, by, what = adds["to"], adds["at"], adds["what"]
    what = f"-({what})" if adds["sign"] == "-" else what
    again = f"; the line ran {times:,} times" if times > 1 else ""
    return Found(
        message=f"Values are lost at {site}: `{to}[{by}] {adds['sign']}= …` writes {values} values "
        f"into {places} elements, and adds only one of those with the same index{again}",
        site=site,
        evidence=(Evidence("op", calls.id(at)),),
        why=f"at least {values - places} of the {values} indices are duplicates; indexing with a "
        "tensor reads, adds and writes back once, without accumulating",
        fix=f"write `{to} = {to}.index_add(0, {by}, {what})`",
    )
