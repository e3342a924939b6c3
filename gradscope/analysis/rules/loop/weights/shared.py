"""Rules about weights: shared by mistake, held by two optimizers, not loaded."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise, product

from gradscope.analysis.findings import Certainty, Evidence, Severity, few_tensors
from gradscope.analysis.identity.leaves import leaf
from gradscope.analysis.identity.sites import at
from gradscope.analysis.lookups import grouped
from gradscope.analysis.program.acts import Done, Optimizer, found_gradients
from gradscope.analysis.program.loop import Beat, Loop
from gradscope.analysis.program.training import Training
from gradscope.analysis.rules.loop.words import line
from gradscope.analysis.rules.own_line import code_of
from gradscope.analysis.rules.ownership import twin_of
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.schema import (
    ActFacts,
    AssignedAct,
    LoadedAct,
    OneMemoryAct,
    Phase,
    SharedAct,
    Span,
    Storage,
    Tensor,
)
from gradscope.trace.trace import Trace

TIMES = re.compile(r"\[(?P<one>[A-Z][\w.]*\(.*\))\]\s*\*\s*(?P<many>[\w.]+)")
"""An expression such as `[Block(width)] * depth`."""

DATA_OF = re.compile(r"(?P<to>[\w.]+)\.data\s*=\s*(?P<of>[\w.]+?)(\.data)?$")
TIED = re.compile(r"(?:[\w.\[\]]+\.)?(?P<to>\w+)\.\w+ = (?:[\w.\[\]]+\.)?(?P<of>\w+)\.\w+")
PARAMETER_OF = re.compile(r"[\w.]*\bParameter\((?P<of>[\w.\[\]]+)\)")


@rule("GS913", "nothing-loaded", reads=("act",))
def nothing_loaded(trace: Trace) -> Iterator[Found]:
    """load_state_dict(strict=False) matched none of the names it received: nothing was loaded.

    Bad:
        model = torch.nn.Linear(2, 1)
        state = {f"module.{name}": value for name, value in model.state_dict().items()}
        model.load_state_dict(state, strict=False)
        model(torch.ones(3, 2))

    Good:
        model = torch.nn.Linear(2, 1)
        model.load_state_dict(model.state_dict(), strict=False)
        model(torch.ones(3, 2))
    """
    loop = trace.once(Loop)
    for act in loop.acts.of(LoadedAct):
        missing, unexpected = act.facts.missing, act.facts.unexpected
        if act.facts.strict or act.facts.many or not missing or not unexpected:
            continue
        site = loop.acts.site(act)
        prefix, of_model = _prefix(unexpected, missing)
        fix = f"check the names: {unexpected[0]!r} was passed, {missing[0]!r} is expected"
        if prefix and not of_model:
            fix = f"remove {prefix!r} from the names: `{{name.removeprefix({prefix!r}): value for "
            fix += "name, value in state.items()}`, and do not pass strict=False"
        elif prefix:
            fix = f"add {prefix!r} to the names: `{{{prefix!r} + name: value for name, value "
            fix += "in state.items()}`, and do not pass strict=False"
        yield Found(
            message=f"nothing was loaded: load_state_dict(strict=False){at(site)} received no name "
            f"that the model has, only names such as {unexpected[0]!r}",
            site=site,
            evidence=(Evidence("act", act.id),),
            why=f"the model has {', '.join(map(repr, missing[:2]))}, and received "
            f"{', '.join(map(repr, unexpected[:2]))}; strict=False does not report this, and the "
            "weights keep their initial values",
            fix=fix,
        )


def _prefix(given: Sequence[str], wanted: Sequence[str]) -> tuple[str, bool]:
    """The prefix of the longer names, and whether these are the expected ones."""
    for longer, shorter, of_model in ((given, wanted, False), (wanted, given, True)):
        for name in longer:
            for short in shorter:
                if name.endswith(f".{short}"):
                    return name[: -len(short)], of_model
    return "", False


@rule("GS914", "tied-twice", reads=("accumulate", "act"))
def tied_twice(trace: Trace) -> Iterator[Found]:
    """Two optimizers hold the same parameter, and both step with the same gradient.

    It also reports two parameters that share memory: `nn.Parameter(embed.weight)` is a second
    parameter with a gradient of its own, and both are stepped.

    Bad:
        first = torch.nn.Linear(2, 2, bias=False)
        second = torch.nn.Linear(2, 2, bias=False)
        second.weight = first.weight
        one = torch.optim.SGD(first.parameters(), lr=0.1)
        other = torch.optim.SGD(second.parameters(), lr=0.1)
        for _ in range(3):
            one.zero_grad()
            second(first(torch.ones(3, 2))).pow(2).mean().backward()
            one.step()
            other.step()

    Good:
        first = torch.nn.Linear(2, 2, bias=False)
        second = torch.nn.Linear(2, 2, bias=False)
        second.weight = first.weight
        one = torch.optim.SGD([first.weight], lr=0.1)
        for _ in range(3):
            one.zero_grad()
            second(first(torch.ones(3, 2))).pow(2).mean().backward()
            one.step()
    """
    loop = trace.once(Loop)
    yield from _of_one_memory(trace, loop)
    holders: dict[int, list[Optimizer]] = defaultdict(list)
    for optimizer in loop.in_use:
        for tensor in dict.fromkeys(optimizer.tensors):
            holders[tensor].append(optimizer)
    several = [tensor for tensor, of in holders.items() if len(of) > 1]
    pairs = grouped(several, lambda tensor: tuple(each.built.id for each in holders[tensor][:2]))
    for tensors in pairs.values():
        one, other = holders[tensors[0]][:2]
        times = _together(loop, one, other)
        if times and not _is_anothers(trace, loop, (one, other)):
            yield _stepped_twice(loop, one, other, tensors, times)


def _of_one_memory(trace: Trace, loop: Loop) -> Iterator[Found]:
    """Two parameters of one optimizer that share all of their memory.

    Across optimizers this is not checked: memory is reused over time.
    """
    tensors, storages = trace.table(Tensor), trace.table(Storage)
    given = {frozenset(act.tensors): act for act in loop.acts.of(OneMemoryAct)}
    for pair, act in given.items():
        stepping = [each for each in loop.in_use if each.steps and pair <= {*each.tensors}]
        if len(pair) == 2 and stepping:
            one, other = act.tensors
            yield _two_of_one(loop, stepping[0], one, other, given=act)
    for optimizer in loop.in_use:
        seen: dict[tuple[int, tuple[int, ...]], int] = {}
        for id in optimizer.tensors:
            if not (optimizer.steps and tensors.has(id)):
                continue
            row = tensors.row(id)
            whole = storages.has(row.storage) and storages.row(row.storage).bytes == row.bytes
            other = seen.setdefault((row.storage, row.shape), id) if whole and row.bytes else id
            if other != id:
                yield _two_of_one(loop, optimizer, other, id)


def _two_of_one(
    loop: Loop, optimizer: Optimizer, one: int, other: int, given: Done[OneMemoryAct] | None = None
) -> Found:
    training = loop.trace.once(Training)
    made = [act for act in loop.acts.of(AssignedAct) if {one, other} & set(act.tensors)]
    act: Done[ActFacts] = given or (made[-1] if made else optimizer.built)
    site = loop.acts.site(act)
    return Found(
        message=f"{training.title(one)} and {training.title(other)} are two parameters that share "
        f"one memory{at(site)}: {optimizer.type} steps it twice, each time with a part of the "
        "gradient",
        site=site,
        evidence=(Evidence("act", act.id), Evidence("tensor", one), Evidence("tensor", other)),
        why=f"{'`.data = …`' if given else '`nn.Parameter(tensor)`'} makes two parameters of the "
        "same values: each has its own gradient and its own averages in the optimizer, and "
        "`parameters()` returns both",
        fix=f"to tie them, assign the parameter itself: `{_itself(site.text)}`"
        if _itself(site.text)
        else "tie them by assigning the parameter itself, or copy it: `.clone()`",
    )


def _itself(text: str) -> str:
    """`a.weight = b.weight` for the line `a.weight = nn.Parameter(b.weight)`; "" for others."""
    data = DATA_OF.match(code_of(text))
    if data:
        return f"{data['to']} = {data['of']}"
    found = PARAMETER_OF.search(code_of(text))
    return code_of(text).replace(found[0], found["of"]) if found else ""


def _together(loop: Loop, one: Optimizer, other: Optimizer) -> int:
    """How often both stepped without a backward in between, and not inside each other's step."""
    fills = [each.t for each in loop.moments(one) if each.beat is Beat.FILLED]
    times = [[step.t for step in each.steps if found_gradients(step)] for each in (one, other)]
    spans = loop.trace.table(Span)
    steps = spans["phase"] == Phase.OPTIMIZER
    begins, ends = spans["begin"][steps], spans["end"][steps]

    def is_part(t: int, others: list[int]) -> bool:
        """Whether a step goes on that ends as a step of the other one."""
        return any(((begins <= t) & (t < each) & (each <= ends)).any() for each in others)

    beats = [(t, 0) for t in fills]
    for which, (own, others) in enumerate((times, times[::-1]), 1):
        beats += [(t, which) for t in own if not is_part(t, others)]
    return sum({a, b} == {1, 2} for (_, a), (_, b) in pairwise(sorted(beats)))


def _is_anothers(trace: Trace, loop: Loop, pair: tuple[Optimizer, Optimizer]) -> bool:
    """Whether one was meant for other parameters that no optimizer holds: GS404 reports that."""
    training = trace.once(Training)
    lost = frozenset(training.parameters) & training.reached - training.held
    return bool(lost) and twin_of(loop.acts.optimizers) == pair


def _stepped_twice(
    loop: Loop, one: Optimizer, other: Optimizer, tensors: list[int], times: int
) -> Found:
    first, second = loop.acts.site(one.built), loop.acts.site(other.built)
    found = leaf(loop.trace, tensors[0])
    name = found.title if found else "a parameter"
    more = f" and {len(tensors) - 1} more" if len(tensors) > 1 else ""
    return Found(
        message=f"{name}{more} {'are' if more else 'is'} stepped twice: both the {one.type} built"
        f"{at(first)} and the {other.type} built{at(second)} hold {'them' if more else 'it'}",
        site=second,
        evidence=(Evidence("act", one.built.id), Evidence("act", other.built.id)),
        why=f"tied weights are one tensor; both optimizers stepped with the same gradient {times} "
        f"time{'s' * (times > 1)}",
        fix=f"leave {'them' if more else 'it'} out of one: {line(second, 'the second optimizer')}",
    )


@rule("GS920", "untied", reads=("accumulate", "act"))
def untied(trace: Trace) -> Iterator[Found]:
    """Two modules that shared a weight were both replaced, and the new ones do not share theirs.

    Tied weights are one parameter. A new module has a parameter of its own, so the tie must be made
    again, for example after an embedding and the last layer were resized. If only one of the two
    modules was replaced, the rule is silent: that may be intended.

    Bad:
        model = torch.nn.Module()
        model.embed, model.head = torch.nn.Embedding(5, 3), torch.nn.Linear(3, 5)
        model.head.weight = model.embed.weight
        model.embed, model.head = torch.nn.Embedding(8, 3), torch.nn.Linear(3, 8)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            model.head(model.embed(torch.arange(8))).pow(2).mean().backward()
            optimizer.step()

    Good:
        model = torch.nn.Module()
        model.embed, model.head = torch.nn.Embedding(5, 3), torch.nn.Linear(3, 5)
        model.head.weight = model.embed.weight
        model.embed, model.head = torch.nn.Embedding(8, 3), torch.nn.Linear(3, 8)
        model.head.weight = model.embed.weight
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            model.head(model.embed(torch.arange(8))).pow(2).mean().backward()
            optimizer.step()
    """
    loop, training = trace.once(Loop), trace.once(Training)
    tensors, assigned = trace.table(Tensor), loop.acts.of(AssignedAct)
    for ties in grouped(
        (each for each in assigned if each.facts.what == "parameter"), loop.acts.site
    ).values():
        tie = ties[0]
        names = TIED.fullmatch(code_of(loop.acts.site(tie).text))
        if names is None:
            continue
        new = {
            act.facts.name: act for act in assigned if act.t > tie.t and act.facts.what == "module"
        }
        one, other = new.get(names["to"]), new.get(names["of"])
        if one is None or other is None:
            continue
        for a, b in product(one.tensors, other.tensors):
            apart = a != b and {a, b} <= training.reached
            if apart and tensors.row(a).shape == tensors.row(b).shape:
                yield _no_longer_tied(loop, tie, (one, other), (a, b))


def _no_longer_tied(
    loop: Loop, tie: Done[AssignedAct], new: tuple[Done[AssignedAct], ...], pair: tuple[int, ...]
) -> Found:
    tied, site = loop.acts.site(tie), loop.acts.site(max(new, key=lambda act: act.t))
    places = " and".join(dict.fromkeys(at(loop.acts.site(act)) for act in new))
    one, other = (act.facts.name for act in new)
    return Found(
        message=f"`{one}` and `{other}` no longer share a weight: they were tied{at(tied)} and "
        f"both replaced{places}, and gradients reach two parameters",
        site=site,
        evidence=(
            *(Evidence("act", act.id) for act in (tie, *new)),
            *few_tensors(loop.trace, pair),
        ),
        why="each new module has a parameter of its own, and the two differ after the first step",
        fix=f"tie them again after {line(site, 'the replacement')}: `{code_of(tied.text)}`",
        certainty=Certainty.INFERRED,
    )


@rule("GS915", "block-used-twice", reads=("act",))
def block_used_twice(trace: Trace) -> Iterator[Found]:
    """A container holds the same module several times, where several modules were intended.

    `[Block()] * 4` is one block four times. Weights that are shared on purpose look the same, so
    this is a note where the line takes the module from somewhere else.

    Bad:
        layers = torch.nn.ModuleList([torch.nn.Linear(2, 2)] * 3)
        x = torch.ones(3, 2)
        for layer in layers:
            x = layer(x)

    Good:
        layers = torch.nn.ModuleList(torch.nn.Linear(2, 2) for _ in range(3))
        x = torch.ones(3, 2)
        for layer in layers:
            x = layer(x)
    """
    loop = trace.once(Loop)
    told: set[str] = set()
    for act in loop.acts.of(SharedAct):
        site = loop.acts.site(act)
        if site.place in told:
            continue
        told.add(site.place)
        many, kind = act.facts.many, act.facts.type
        yield Found(
            message=f"{act.facts.within}{at(site)} holds the same {kind} {many} "
            "times: its weights are shared",
            site=site,
            evidence=(Evidence("act", act.id),),
            why=f"multiplying a list repeats its items and makes no copies: {many} layers have the "
            "parameters of one",
            fix=_several(site.text),
            certainty=Certainty.SUSPECTED,
            severity=Severity.NOTE if _is_meant(site.text) else None,
        )


def _several(text: str) -> str:
    found = TIMES.search(text)
    if found is None:
        return "create each layer separately: `[Block() for _ in range(n)]`, or use copy.deepcopy"
    better = f"[{found['one']} for _ in range({found['many']})]"
    return f"write `{text.replace(found[0], better)}`"


def _is_meant(text: str) -> bool:
    """Whether the module is taken from elsewhere, or is called shared."""
    return "shared" in text.lower() or bool(re.search(r"\[\s*self\.", text))
