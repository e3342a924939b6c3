"""Explanations of PyTorch's messages: the line that causes the error, why, and a corrected line."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

from gradscope.analysis.identity.sites import Site, at, site_of
from gradscope.analysis.program.acts import Acts
from gradscope.analysis.program.calls import Calls
from gradscope.analysis.program.modules import module_names
from gradscope.analysis.program.training import Training
from gradscope.analysis.source.files import SourceFiles
from gradscope.analysis.source.reorders import inferred
from gradscope.trace.schema import (
    NONE,
    Accumulate,
    GraphTask,
    HookBegin,
    HookEnd,
    Module,
    RanAct,
    Replicated,
    RequiresGradAct,
    Tensor,
)  # fmt: skip
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class Explained:
    """What is known about an error in addition to its message."""

    why: str
    fix: str
    site: Site | None = None  # the line that causes it, if another one raised


Shape = tuple[int, ...]
View = tuple[Site, Shape, Shape]  # line of the view, shape of its result, and of its input
Explain = Callable[[Trace, "re.Match[str]", Site], Explained | None]


def explained(trace: Trace, message: str, site: Site) -> Explained | None:
    """The explanation of an error that was raised at a line; None for unknown kinds."""
    for pattern, explain in KINDS:
        match = re.search(pattern, message)
        if match and (found := explain(trace, match, site)):
            return found
    return None


def _instead(site: Site, old: str, new: str, otherwise: str) -> str:
    """The user's own line with one part replaced; `otherwise` if the line does not contain it."""
    if site.text.count(old) == 1:
        code = site.text.partition("  #")[0].rstrip()
        return f"write `{code.replace(old, new)}` instead of `{code}`"
    return otherwise


# Gradients ---------------------------------------------------------------------------------------


def _without_history(trace: Trace, _: re.Match[str], site: Site) -> Explained:
    """Nothing that requires a gradient led to the tensor, and GS410 has seen no cut."""
    acts, training = trace.once(Acts), trace.once(Training)
    parameters = set(training.parameters)
    frozen = [act for act in acts.of(RequiresGradAct) if not act.facts.to]
    if parameters and parameters <= training.frozen and frozen:
        line = acts.site(frozen[-1])
        return Explained(
            f"none of {len(parameters)} parameters requires a gradient: they were frozen{at(line)}",
            "leave requires_grad=True for those that should learn",
            line,
        )
    more = " at level graph, which records no cuts" if trace.meta.get("level") == "graph" else ""
    return Explained(
        f"nothing that requires a gradient led to it, and no cut was recorded{more}",
        "create its inputs with requires_grad=True, and keep them tensors: no `.data`, "
        "`torch.tensor(x)`, NumPy or integer operation in between",
        site,
    )


def _leaf_written(_: Trace, match: re.Match[str], site: Site) -> Explained:
    view = "of a view of it " if match[1] else ""
    text = f": `with torch.no_grad(): {site.text}`" if site.text else ""
    return Explained(
        f"it is a leaf, whose gradient is accumulated; an in-place write {view}would become part "
        "of its own graph",
        f"to update a parameter, write under no_grad(){text}; otherwise create a new tensor "
        "out of place",
    )


def _not_a_scalar(_: Trace, __: re.Match[str], site: Site) -> Explained:
    return Explained(
        "a backward begins with one number, whose gradient is 1; this tensor has several",
        _instead(site, ".backward(", ".mean().backward(", "apply `.mean()` or `.sum()` first"),
    )


def _to_numpy(_: Trace, __: re.Match[str], site: Site) -> Explained:
    return Explained(
        "an array has no graph, so the graph must be cut explicitly",
        _instead(site, ".numpy()", ".detach().numpy()", "use `x.detach().numpy()`"),
    )


def _anomaly(trace: Trace, match: re.Match[str], __: Site) -> Explained:
    level = trace.meta.get("level")
    values = "`gradscope inspect` shows the values" if level in ("values", "full") else (
        "`gradscope trace --level values` shows the values, and where the first NaN was produced"
    )  # fmt: skip
    return Explained(
        f"its derivative returned a NaN: {match[1]} was at the limit of its domain, or the "
        "gradient it received was not finite",
        f"{values}; keep the inputs inside the domain (`+ eps`, `clamp`), before the call and not "
        "after it",
    )


def _unused(_: Trace, __: re.Match[str], ___: Site) -> Explained:
    return Explained(
        "autograd.grad was called for a tensor that the result was not computed from",
        "pass only tensors that lead to the result, or pass allow_unused=True and accept None",
    )


def _hook_returned(trace: Trace, match: re.Match[str], _: Site) -> Explained:
    ended = {(e.task, e.node, e.hook, e.index) for e in trace.events(HookEnd)}
    calls = [e for e in trace.events(HookBegin) if (e.task, e.node, e.hook, e.index) not in ended]
    line = site_of(trace, calls[-1].stack) if calls else Site()
    name = f"the hook {calls[-1].name}{at(line)}" if calls else "a hook"
    return Explained(
        f"{name} returned a {match[1]}",
        "return a tensor, or None to leave the gradient unchanged",
        line if line.place else None,
    )


# Shapes and dtypes -------------------------------------------------------------------------------


VIEWS = ("view", "reshape", "_reshape_alias", "_unsafe_view", "flatten")
FEW = 8
RECENT = 200
"""Number of views that are checked, from the last one backwards."""

INFERRED = re.compile(r"\.(view|reshape)\(-1,[^()]*\)")


def _other_batch(trace: Trace, match: re.Match[str], _: Site) -> Explained | None:
    """There are fewer or more rows than targets: a view may have changed the batch size."""
    sizes = match.groupdict()
    came, wanted = (int(sizes[name].partition(",")[0] or 0) for name in ("came", "wanted"))
    pairs = {(came, wanted), (wanted, came)}
    view = _last_view(trace, lambda now, before: (now[0], before[0]) in pairs)
    return _batch_swallowed(*view) if view else _may_be_swallowed(trace, came, wanted)


def _other_rows(trace: Trace, match: re.Match[str], _: Site) -> Explained | None:
    """A layer gets an unexpected number of columns: a view may have split samples elsewhere."""
    rows, columns = int(match[1]), int(match[2])

    def cuts(now: Shape, before: Shape) -> bool:
        if now == (columns,):  # all of the batch in one row
            return rows == 1
        return now == (rows, columns) and rows not in accumulate(before, mul)

    view = _last_view(trace, cuts)
    return view and _batch_swallowed(*view)


def _last_view(trace: Trace, wanted: Callable[[Shape, Shape], bool]) -> View | None:
    """The last view whose result and input have such shapes."""
    calls = trace.once(Calls)
    for at_ in calls.with_tensors(*VIEWS)[: -RECENT - 1 : -1].tolist():
        now, before = calls.shape(calls.outputs(at_)[0]), calls.shape(calls.inputs(at_)[0])
        if now and len(before) > 1 and before[0] not in {1, now[0]} and wanted(now, before):
            return calls.site(at_), now, before
    return None


def _may_be_swallowed(trace: Trace, came: int, wanted: int) -> Explained | None:
    """The only view in the source with an inferred first dim, applied to data, so not recorded."""
    calls = trace.once(Calls)
    seen = {calls.site(each).place for each in calls.called(*VIEWS).tolist()}
    views = trace.once(SourceFiles).each(inferred)
    sites = [each.site for each in views if each.site.place not in seen]
    if len(sites) != 1 or not wanted or came % wanted:
        return None
    (site,) = sites
    code = site.text.partition("  #")[0].strip()
    return Explained(
        f"-1 in the view{at(site)} stands for as many rows as result, possibly {came} for "
        f"{wanted} samples: calls on data without gradients are not recorded",
        f"keep dim 0: write `{INFERRED.sub('.flatten(1)', code)}` instead of `{code}`, and give "
        "the next layer a matching number of features",
        site,
    )


def _batch_swallowed(site: Site, now: Shape, before: Shape) -> Explained:
    code = site.text.partition("  #")[0].strip()
    better = INFERRED.sub(".flatten(1)", code)
    return Explained(
        f"a view{at(site)} made {now} from {before}: the {before[0]} samples of the batch became "
        f"{now[0]} rows" + ("" if len(now) > 1 else " of one value, or one row"),
        f"keep dim 0: write `{better}` instead of `{code}`, and give the next layer a matching "
        "number of features"
        if better != code
        else f"keep dim 0: `x.flatten(1)`, or `x.view({before[0]}, -1)`",
        site if site.place else None,
    )


def _squeezed(trace: Trace, _: re.Match[str], __: Site) -> Explained | None:
    """A dim is missing or differs: squeeze() may have removed that of a batch of one."""
    calls = trace.once(Calls)
    for at_ in calls.with_tensors("squeeze")[: -FEW - 1 : -1].tolist():
        now, before = calls.shape(calls.outputs(at_)[0]), calls.shape(calls.inputs(at_)[0])
        site = calls.site(at_)
        if before[:1] == (1,) and len(now) < len(before) and now and ".squeeze()" in site.text:
            return Explained(
                f"squeeze(){at(site)} made {now} from {before}: for a batch of one sample it also "
                "removes dim 0",
                _instead(site, ".squeeze()", ".flatten(1)" if len(now) == 1 else ".squeeze(-1)",
                         "name the dim: `x.squeeze(-1)`"),
                site if site.place else None,
            )  # fmt: skip
    return None


def _not_multiplied(trace: Trace, match: re.Match[str], site: Site) -> Explained:
    rows, columns, takes, gives = (int(part) for part in match.groups())
    module = _module_with(trace, (gives, takes), site)
    if module is None:
        return Explained(
            f"the first has {columns} columns ({rows}×{columns}), the second {takes} rows "
            f"({takes}×{gives}): these must be equal",
            "print both shapes before that line; transpose one of them, or change its size",
        )
    name = module_names(trace)[module.id] or module.type
    return Explained(
        f"{name} ({module.type}) takes {takes} features, but got {columns} ({rows}×{columns})",
        f"create it as {module.type}({columns}, {gives}), or make the layer before return {takes}",
    )


def _module_with(trace: Trace, shape: tuple[int, int], site: Site) -> Module | None:
    """The module with a weight of this shape that the line names, or the last that began."""
    tensors = trace.table(Tensor)
    fitting = {
        module.id: module
        for module in trace.rows(Module)
        if any(tensors.has(id) and tensors.row(id).shape == shape for id in module.parameters)
    }
    names = set(re.findall(r"\w+", site.text))
    named = [m for m in fitting.values() if m.path and m.path.rpartition(".")[2] in names]
    ran = [act.module for act in trace.once(Acts).of(RanAct) if act.module in fitting]
    if len(named) == 1:
        return named[0]
    return fitting[ran[-1]] if ran else next(iter(fitting.values()), None)


def _not_broadcast(_: Trace, match: re.Match[str], __: Site) -> Explained:
    a, b, dim = match.groups()
    return Explained(
        f"dimension {dim} is {a} in one and {b} in the other; different sizes can only be "
        "broadcast if one of them is 1",
        "print both shapes before that line; reshape one to match the other (`view`, "
        "`unsqueeze`, `expand`), or use the same number of rows in both",
    )


def _other_dtype(_: Trace, match: re.Match[str], __: Site) -> Explained:
    one, other = match.groups()
    if "Long" in (one, other):
        return Explained(
            f"{one} was expected but {other} was passed: labels are integers, values are not",
            "pass labels as `y.long()`, and values as `x.float()`",
        )
    return Explained(
        f"one is {one}, the other {other}: nothing is converted automatically here; NumPy's "
        "numbers are doubles",
        "convert the input to the dtype of the parameters: `x.float()`, or `x.to(weight.dtype)`",
    )


def _other_size(_: Trace, match: re.Match[str], __: Site) -> Explained:
    sizes = [int(each) for each in re.findall(r"-?\d+", match[1])]
    known = 1
    for size in sizes:
        known *= size if size > 0 else 1
    return Explained(
        f"it has {match[2]} elements, and [{match[1]}] asks for "
        + (f"a multiple of {known}" if -1 in sizes else f"{known}"),
        "check the size of each dimension there; write -1 for a batch that may not be full, or use "
        "`flatten(1)`",
    )


def _unfinished(trace: Trace, _: re.Match[str], __: Site) -> Explained | None:
    """DistributedDataParallel still waits for gradients of the backward before."""
    training, tasks, events = trace.once(Training), trace.table(GraphTask), trace.table(Accumulate)
    ended = tasks["id"][(tasks["end"] != NONE) & (tasks["parent"] == NONE)]
    if not len(ended):
        return None
    reached = {*events["tensor"][events["task"] == ended[-1]].tolist()}
    models = [{*row.parameters} for row in trace.rows(Replicated)]
    missing = [tensor for held in models if held & reached for tensor in sorted(held - reached)]
    if not missing:
        return None
    ran = {act.module for act in trace.once(Acts).of(RanAct)}
    idle = dict.fromkeys(training.parameters.get(tensor, NONE) for tensor in missing)
    names = module_names(trace)
    never = [f"`{names[module]}`" for module in idle if module in names and module not in ran]
    called = f"; {', '.join(never[:FEW])} {'was' if len(never) == 1 else 'were'} never called"
    site = site_of(trace, int(tasks["stack"][tasks.index(int(ended[-1]))]))
    return Explained(
        f"{training.named(missing)} got no gradient in the backward before{at(site)}, and "
        f"DistributedDataParallel waits for the gradient of each parameter{called * bool(never)}",
        "use each parameter for the loss in each step, or pass find_unused_parameters=True to "
        "DistributedDataParallel",
    )


SIZE = r"\(torch\.Size\(\[(?P<%s>[\d, ]+)\]\)\)"
KINDS: tuple[tuple[str, Explain], ...] = (
    (r"does not require grad and does not have a grad_fn", _without_history),
    (r"a (view of a )?leaf Variable that requires grad is being used in an in", _leaf_written),
    (r"grad can be implicitly created only for scalar outputs", _not_a_scalar),
    (r"Can't call numpy\(\) on Tensor that requires grad", _to_numpy),
    (r"Function '(\w+)' returned nan values", _anomaly),
    (r"One of the differentiated Tensors appears to not have been used", _unused),
    (r"Expected to have finished reduction in the prior iteration", _unfinished),
    (r"expected Variable, but hook returned '(\w+)'", _hook_returned),
    (r"input batch_size \((?P<came>\d+)\) to match target batch_size \((?P<wanted>\d+)\)",
     _other_batch),
    (rf"arget size {SIZE % 'wanted'} .* input size {SIZE % 'came'}", _other_batch),
    ((r"size of tensor a \((?P<came>\d+)\) must match the size of tensor b \((?P<wanted>\d+)\) "
      "at non-singleton dimension 0"), _other_batch),
    ((r"match target batch_size \(1\)|size mismatch \(got input|Dimension out of range|"
      r"must have the same number of dimensions|target size|at non-singleton dimension 0"),
     _squeezed),
    (r"shapes cannot be multiplied \((\d+)x(\d+) and", _other_rows),
    (r"shapes cannot be multiplied \((\d+)x(\d+) and (\d+)x(\d+)\)", _not_multiplied),
    ((r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\) at non-singleton "
     r"dimension (\d+)"), _not_broadcast),
    (r"must have the same dtype, but got (\w+) and (\w+)", _other_dtype),
    ((r"expected (?:scalar type|m1 and m2 to have the same dtype, but got:) (\w+) "
     r"(?:but found|!=) (\w+)"), _other_dtype),
    (r"shape '\[([-\d, ]+)\]' is invalid for input of size (\d+)", _other_size),
)  # fmt: skip
"""Patterns of messages, and the function that explains each."""
