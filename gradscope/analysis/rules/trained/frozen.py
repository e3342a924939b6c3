"""The rule about parameters of an optimizer that are frozen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradscope.analysis.findings import Certainty, Evidence, Severity
from gradscope.analysis.identity.sites import at
from gradscope.analysis.lookups import grouped
from gradscope.analysis.program.acts import Done, Optimizer
from gradscope.analysis.program.training import Training
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.schema import AssignedAct, RequiresGradAct
from gradscope.trace.trace import Trace

AGAIN, FEW_STEPS = 3, 2
"""How often it is frozen; and the most steps of its own, before those of others."""


@rule("GS402", "frozen", Severity.NOTE)
def frozen(trace: Trace) -> Iterator[Found]:
    """An optimizer holds parameters that do not require grad, and so never change.

    This is often intended. It is a warning if everything the optimizer holds is frozen, or a whole
    group that was passed to it. It is also a warning if the program freezes the same parameters
    again and again while it trains.

    Bad:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.ones(3, 2, requires_grad=True)
        for _ in range(2):
            model.requires_grad_(False)
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()

    Good:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.ones(3, 2, requires_grad=True)
        for _ in range(2):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
    """
    training = trace.once(Training)
    yield from _flags(training)
    for optimizer in training.stepped:
        still = set(optimizer.tensors) & training.frozen - training.reached
        still |= _frozen_again(training, optimizer)
        froze = (act for act in training.acts.of(RequiresGradAct) if not act.facts.to)
        acts = [act for act in froze if still.intersection(act.tensors)]
        if not acts:
            continue
        for several in grouped(acts, training.acts.place).values():
            yield _of_frozen(training, optimizer, still, several)


def _frozen_again(training: Training, optimizer: Optimizer) -> set[int]:
    """Parameters that learned, and are frozen repeatedly while others train, never unfrozen."""
    first, last = optimizer.steps[0].t, optimizer.steps[-1].t
    begun = [act.t for each in training.stepped for act in each.steps if act.t > last]
    if len(begun) < AGAIN or len(optimizer.steps) > FEW_STEPS:
        return set()  # what trained for long may be frozen for good
    times: dict[int, int] = defaultdict(int)
    thawed: set[int] = set()
    for act in training.acts.of(RequiresGradAct):
        if act.facts.to:
            thawed.update(act.tensors if act.t > first else ())
        elif act.t > last:
            for tensor in act.tensors:
                times[tensor] += 1
    often = {tensor for tensor, many in times.items() if many >= AGAIN}
    return often.intersection(optimizer.tensors) & training.frozen - thawed


def _flags(training: Training) -> Iterator[Found]:
    """`module.requires_grad = …` sets an attribute of the module, not of its parameters."""
    flags = (act for act in training.acts.of(AssignedAct) if act.facts.what == "flag")
    asks = (act for act in flags if act.facts.name == "requires_grad")
    for acts in grouped(asks, training.acts.place).values():
        act, site = acts[0], training.acts.site(acts[0])
        to = bool(act.facts.to)
        own = training.parameters_in(act.module)
        stays = f"{training.named(own)} stay" if own else "its parameters stay"
        still = "frozen" if to else "unchanged"
        yield Found(
            message=f"requires_grad = {to} of a module{at(site)} has no effect: {stays} {still}",
            site=site,
            evidence=(Evidence("act", act.id),),
            why=f"a {act.facts.within} has no requires_grad: the line creates an attribute of "
            "that name, which nothing reads",
            fix=f"write `{_as_call(site.text)}`",
            severity=Severity.WARNING,
            certainty=Certainty.CERTAIN,
        )


def _as_call(text: str) -> str:
    """`net.body.requires_grad_(True)` for `net.body.requires_grad = True`."""
    owner, _, value = text.partition("  #")[0].partition(".requires_grad")
    return f"{owner}.requires_grad_({value.lstrip(' =').strip()})"


def _of_frozen(
    training: Training, optimizer: Optimizer, still: set[int], acts: list[Done[RequiresGradAct]]
) -> Found:
    tensors = still.intersection(*[set().union(*(act.tensors for act in acts))])
    first_step = optimizer.steps[0].t
    all_ = still >= set(optimizer.tensors) or _is_a_group(optimizer, still)
    again = any(act.t > first_step for act in acts)
    sites = training.acts.sites(acts[0])
    site, they = sites[0], "they" if len(tensors) > 1 else "it"
    outer = f", called{at(sites[1])}" if len(sites) > 1 else ""
    return Found(
        message=f"{training.named(tensors)} of {optimizer.type} {_unchanged(training, tensors)}: "
        f"requires_grad was set to False{at(site)}{outer}",
        site=site,
        evidence=tuple(Evidence("act", act.id) for act in (*acts[:2], optimizer.built)),
        why=f"it was set {'once' if len(acts) == 1 else f'{len(acts)} times'}"
        f"{', also after the first step' if again else ''}, and never back to True; "
        f"{optimizer.type} was built{at(training.acts.site(optimizer.built))}",
        fix=f"if {they} should learn, set requires_grad to True before the forward; otherwise "
        f"leave {'them' if len(tensors) > 1 else 'it'} out of the optimizer",
        certainty=Certainty.SUSPECTED,
        severity=Severity.WARNING if all_ or again else None,
        parameters=frozenset(tensors),
    )


def _is_a_group(optimizer: Optimizer, still: set[int]) -> bool:
    """Whether all of one parameter group of the optimizer was frozen by then."""
    sizes = optimizer.built.facts.many
    if len(sizes) < 2:
        return False
    first = 0
    for many in sizes:
        own = optimizer.built.tensors[first : first + many]
        first += len(own)
        if own and still.issuperset(own):
            return True
    return False


def _unchanged(training: Training, tensors: set[int]) -> str:
    verb = "change" if len(tensors) > 1 else "changes"
    return f"{verb} no longer" if tensors & training.reached else f"never {verb}"
