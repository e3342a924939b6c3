"""Rules about which parameters modules and optimizers hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gradscope.analysis.findings import Evidence, Severity, few_tensors
from gradscope.analysis.identity.sites import at, site_of
from gradscope.analysis.lookups import grouped
from gradscope.analysis.program.acts import Done, Optimizer
from gradscope.analysis.program.training import Training
from gradscope.analysis.rules.own_line import in_holder, parameter_around, rewritten
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.rules.trained.cuts.no_history import NO_HISTORY
from gradscope.analysis.rules.trained.of_no_module import of_no_module
from gradscope.analysis.rules.trained.unused import trained_by_nobody, written_later
from gradscope.analysis.source.statements import rebound
from gradscope.trace.schema import (
    AssignedAct,
    Finding,
    MadeAct,
    Module,
    RequiresGradAct,
    WarningAct,
)
from gradscope.trace.trace import Trace

NOT_A_LEAF = "The .grad attribute of a Tensor that is not a leaf"
"""How PyTorch's warning begins."""

KEYS = ", whose keys are strings"
HOLDERS = {"list": "List", "tuple": "List", "dict": "Dict"}


@rule("GS403", "unregistered-parameter")
def unregistered_parameter(trace: Trace) -> Iterator[Found]:
    """A module uses parameters that are not registered in it, so no optimizer holds them.

    A plain list or dict hides modules and parameters from `parameters()`; so does a tensor that is
    not an `nn.Parameter`. A layer that is created in `forward` has new weights each time.

    Bad:
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = [torch.nn.Linear(2, 2)]
                self.head = torch.nn.Linear(2, 1)

            def forward(self, x):
                return self.head(self.layers[0](x))

        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        net(torch.ones(3, 2)).sum().backward()
        optimizer.step()

    Good:
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = torch.nn.ModuleList([torch.nn.Linear(2, 2)])
                self.head = torch.nn.Linear(2, 1)

            def forward(self, x):
                return self.head(self.layers[0](x))

        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        net(torch.ones(3, 2)).sum().backward()
        optimizer.step()
    """
    training = trace.once(Training)
    if training.stepped:
        yield from _hidden(training)
        yield from _made_in_forward(training)


def _hidden(training: Training) -> Iterator[Found]:
    held = training.sharing_memory(training.held)
    for act in training.acts.of(AssignedAct):
        what, name = act.facts.what, act.facts.name
        kind = what.partition(" ")[0]
        lost = set(act.tensors) & training.reached - held
        computed = what == "tensor" and act.facts.leaf is False
        if not lost or (kind not in HOLDERS and what != "tensor"):
            continue
        if computed:
            if lost == set(act.tensors) and lost.isdisjoint(training.parameters):
                yield _computed(training, act, lost)
            continue
        site, within = training.acts.site(act), act.facts.within
        holder = f"{'Parameter' if 'Parameter' in what or 'Tensor' in what else 'Module'}"
        holder = f"{holder}{HOLDERS.get(kind, '')}" if what != "tensor" else "Parameter"
        better, then = in_holder(site.text, holder)
        shown = f"a plain {what}" if kind in HOLDERS else "a tensor, not an nn.Parameter"
        several = len(lost) > 1
        its = f"its {len(lost)} parameters are" if several else "its parameter is"
        yield Found(
            message=f"`{name}` of {within} is {shown}{at(site)}: {its} not registered, and no "
            f"optimizer holds {'them' if several else 'it'}",
            site=site,
            evidence=(
                Evidence("act", act.id),
                *few_tensors(training.trace, lost),
            ),
            why="backwards produced gradients for them, but no step used these; "
            f"`parameters()` and `state_dict()` of {within} do not return them either",
            fix=f"write `{better}`{'; ' if then else ''}{then}"
            if better
            else f"keep them in a torch.nn.{holder}{KEYS if holder.endswith('Dict') else ''}",
            rewrite=None if then else rewritten(site, better, "state_dict() will have more keys"),
        )


def _computed(training: Training, act: Done[AssignedAct], lost: set[int]) -> Found:
    """`self.w = nn.Parameter(…) * 0.1`: the attribute is computed, and the parameter is lost."""
    site, within = training.acts.site(act), act.facts.within
    name = act.facts.name
    better = parameter_around(site.text)
    return Found(
        message=f"`{name}` of {within} is computed from a parameter, but is not one{at(site)}: "
        "the parameter is not registered, and no optimizer holds it",
        site=site,
        evidence=(Evidence("act", act.id), *few_tensors(training.trace, lost)),
        why=f"backwards produced gradients for it, but no step used these; `{name}` keeps the "
        "values and the graph of the time when it was computed",
        fix=f"write `{better}`" if better else "apply nn.Parameter to the final result",
    )


def _made_in_forward(training: Training) -> Iterator[Found]:
    modules, lost = training.trace.table(Module), training.reached - training.held
    made = [act for act in training.acts.of(MadeAct) if modules.has(act.module)]
    made = [act for act in made if not lost.isdisjoint(modules.row(act.module).parameters)]
    for acts in grouped(made, training.acts.place).values():
        act = acts[0]
        site = training.acts.site(act)
        yield Found(
            message=f"A {act.facts.type} is created in forward{at(site)}, "
            f"{len(acts)} time{'s' if len(acts) > 1 else ''}: its parameters are new each time, "
            "not registered, and no optimizer holds them",
            site=site,
            evidence=tuple(Evidence("act", each.id) for each in acts[:3]),
            why="backwards produced gradients for them, which were dropped with them",
            fix="create it once, in `__init__`, as an attribute of the module",
        )


@rule("GS404", "not-in-optimizer", Severity.NOTE, reads=("version",))
def not_in_optimizer(trace: Trace) -> Iterator[Found]:
    """Gradients reach parameters of a model that no optimizer holds: they never change.

    Averages of other parameters are not reported. It is a warning where an optimizer holds other
    parameters of the same model.

    Bad:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD([model.weight], lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.ones(3, 2)).sum().backward()
            optimizer.step()

    Good:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.ones(3, 2)).sum().backward()
            optimizer.step()
    """
    training = trace.once(Training)
    yield from of_no_module(training)
    known = set(training.parameters) - _unregistered(training) - _put_in_later(training)
    lost = (known & training.reached) - training.held
    lost -= written_later(training, averages=True)
    lost = lost.difference(*(tensors for _, tensors, _ in trained_by_nobody(training)))
    stepping = [each for each in training.stepped if set(each.tensors) & training.reached]
    if not lost or not stepping:
        return
    optimizer = _of_the_same_model(training, lost, stepping)
    site = training.acts.site(optimizer.built)
    models = {training.root_of(each) for each in training.held & set(training.parameters)}
    same = {training.root_of(each) for each in lost} & models
    twins = twin_of(training.acts.optimizers)
    has = f"holds {len(optimizer.tensors)} other tensors"
    if twins:
        optimizer = twins[1]
        site = training.acts.site(optimizer.built)
        has = f"holds the same tensors as the one built{at(training.acts.site(twins[0].built))}"
    thawed = [
        act
        for act in training.acts.of(RequiresGradAct)
        if act.facts.to and act.t > optimizer.built.t and lost & set(act.tensors)
    ]
    if thawed:
        has += f"; requires_grad was set{at(training.acts.site(thawed[0]))}, after that"
    yield Found(
        message=f"No optimizer holds {training.named(lost)}: {optimizer.type}, built{at(site)}, "
        f"{has}",
        site=site,
        evidence=(Evidence("act", optimizer.built.id), *few_tensors(trace, lost)),
        why="backwards produced gradients for them in the recorded steps, but no step used these"
        + training.told_apart(lost, optimizer.tensors),
        fix="pass all of `model.parameters()` to the optimizer; if they should stay unchanged, "
        "`requires_grad_(False)` avoids computing their gradients",
        severity=Severity.WARNING if same or twins else None,
    )


def twin_of(optimizers: tuple[Optimizer, ...]) -> tuple[Optimizer, Optimizer] | None:
    """Two that step by turns and hold the same tensors: one got those meant for the other."""
    seen: dict[frozenset[int], Optimizer] = {}
    for each in optimizers:
        one = seen.setdefault(frozenset(each.tensors), each)
        if one is not each and one.steps and each.steps and each.steps[0].t < one.steps[-1].t:
            return one, each
    return None


def _unregistered(training: Training) -> set[int]:
    found: set[int] = set()
    for act in training.acts.of(AssignedAct):
        if act.facts.what.partition(" ")[0] in HOLDERS:
            found.update(act.tensors)
    modules = training.trace.table(Module)
    for made in training.acts.of(MadeAct):
        if modules.has(made.module):
            found.update(modules.row(made.module).parameters)
    return found


@rule("GS405", "replaced-parameter")
def replaced_parameter(trace: Trace) -> Iterator[Found]:
    """A parameter or module was replaced after the optimizer was built: it updates the old one.

    Bad:
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 5))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model[1] = torch.nn.Linear(2, 1)
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.ones(3, 2)).sum().backward()
            optimizer.step()

    Good:
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 5))
        model[1] = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.ones(3, 2)).sum().backward()
            optimizer.step()
    """
    yield from trace.once(replaced_parameters)


def replaced_parameters(trace: Trace) -> tuple[Found, ...]:
    """The findings of GS405, which others refer to."""
    return (*_replaced(trace),)


def _replaced(trace: Trace) -> Iterator[Found]:
    training = trace.once(Training)
    yield from _rebound(training)
    if not training.stepped:
        return
    for acts in grouped(_replacements(training), training.acts.place).values():
        act = acts[0]
        lost = set().union(*(each.tensors for each in acts)) & training.reached - training.held
        built_before = [each for each in training.stepped if each.built.t < act.t]
        optimizer = _of_the_same_model(training, lost, built_before)
        site, built = training.acts.site(act), training.acts.site(optimizer.built)
        what = act.facts.what
        times = f", {len(acts)} times" if len(acts) > 1 else ""
        yield Found(
            message=f"{what.capitalize()} `{act.facts.name}` was replaced{at(site)}{times}, "
            f"after {optimizer.type} was built{at(built)}, which still steps the old one",
            site=site,
            evidence=(
                Evidence("act", act.id),
                Evidence("act", optimizer.built.id),
                *few_tensors(trace, lost),
            ),
            why=f"gradients reached the new one ({training.named(lost)}), which no optimizer holds",
            fix="replace it before the optimizer is built"
            if what == "module"
            else "write to it in place: `with torch.no_grad(): parameter.copy_(values)`",
            parameters=frozenset(optimizer.tensors) - set(training.parameters) - training.reached,
        )


def _of_the_same_model(
    training: Training, lost: Iterable[int], optimizers: list[Optimizer]
) -> Optimizer:
    """The optimizer that holds others of the model of the lost ones; else the first."""
    roots = {training.root_of(each) for each in lost if each in training.parameters}
    for each in optimizers:
        known = [tensor for tensor in each.tensors if tensor in training.parameters]
        if not roots.isdisjoint(map(training.root_of, known)):
            return each
    return optimizers[0]


def _rebound(training: Training) -> Iterator[Found]:
    """`w = w - lr * w.grad`: the name refers to another tensor from there on."""
    updates = rebound(training.trace)
    errors = [row for row in training.trace.rows(Finding) if NO_HISTORY in row.message]
    if not updates or not training.backwards:
        return
    sites, names = [each.site for each in updates], [each.found.name for each in updates]
    first, site = names[0], sites[0]
    others = zip(names[1:], sites[1:], strict=True)
    more = "".join(f", and `{name}` by one{at(place)}" for name, place in others)
    ended = f"; the next backward{at(site_of(training.trace, errors[0].stack))} raised"
    yield Found(
        message=f"The update{at(site)} replaces the parameter `{first}` with a new tensor{more} "
        f"instead of writing to it in place{ended if errors else ''}",
        site=site,
        evidence=(
            *(each.evidence for each in updates),
            *(Evidence("finding", error.id) for error in errors[:1]),
        ),
        why=f"`{first} = …` binds the name to the computed tensor: under no_grad it requires no "
        "grad, so the next loss has no graph; otherwise it is not a leaf, and its .grad is None",
        fix=f"write to it in place, under `torch.no_grad()`: `{_in_place(site.text, first)}`",
        severity=Severity.ERROR if errors else None,
    )


def _in_place(text: str, name: str) -> str:
    """`w -= lr * w.grad` for `w = w - lr * w.grad`."""
    value = text.partition("=")[2].strip()
    for sign in "-+":
        if value.startswith(f"{name} {sign} "):
            return f"{name} {sign}= {value[len(name) + 3 :]}"
    return f"{name}.copy_(…)"


def _replacements(training: Training) -> Iterator[Done[AssignedAct]]:
    first = min(each.built.t for each in training.stepped)
    for act in training.acts.of(AssignedAct):
        new = set(act.tensors)
        if act.facts.replaced and act.t > first and new & training.reached - training.held:
            yield act


def _put_in_later(training: Training) -> set[int]:
    if not training.stepped:
        return set()
    return {tensor for act in _replacements(training) for tensor in act.tensors}


@rule("GS407", "not-a-leaf")
def not_a_leaf(trace: Trace) -> Iterator[Found]:
    """`.grad` of a tensor that is not a leaf was read: a backward sets only those of leaves.

    Bad:
        x = torch.ones(3, requires_grad=True) * 0.5
        x.sum().backward()
        x.grad

    Good:
        x = (torch.ones(3) * 0.5).requires_grad_()
        x.sum().backward()
        x.grad
    """
    training = trace.once(Training)
    for act in training.acts.of(WarningAct):
        if act.facts.text.startswith(NOT_A_LEAF):
            site = training.acts.site(act)
            yield Found(
                message=f".grad was read{at(site)} of a tensor that is not a leaf: it is None",
                site=site,
                evidence=(Evidence("act", act.id),),
                why="the tensor was computed from another one, which received the gradient",
                fix="make it a leaf: `(…).detach().requires_grad_()`, or call `retain_grad()` on "
                "it before the backward",
            )
