"""Rules about switches that stay set: dropout that is always on, gradients that stay off."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.analysis.findings import Certainty, Evidence, Severity
from gradscope.analysis.identity.sites import at, site_of
from gradscope.analysis.program.acts import Acts, Done
from gradscope.analysis.program.loop import Loop
from gradscope.analysis.program.modes import Modes
from gradscope.analysis.program.modules import module_names
from gradscope.analysis.program.training import Training
from gradscope.analysis.rules.loop.words import line
from gradscope.analysis.rules.own_line import rewritten
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.schema import ActFacts, Finding, GradOffAct, GraphTask, RanAct
from gradscope.trace.trace import Trace


@rule("GS513", "dropout-always-on", reads=("act",))
def dropout_always_on(trace: Trace) -> Iterator[Found]:
    """Functional dropout also drops in eval mode: `training=self.training` was not passed.

    `F.dropout(x, p)` has `training=True` by default. A line that passes `training=True` itself is
    a note.

    Bad:
        class Net(torch.nn.Linear):
            def forward(self, x):
                return torch.nn.functional.dropout(super().forward(x), 0.5)
        model = Net(2, 2)
        model(torch.ones(3, 2)).sum().backward()
        model.eval()
        with torch.no_grad():
            model(torch.ones(3, 2))

    Good:
        class Net(torch.nn.Linear):
            def forward(self, x):
                return torch.nn.functional.dropout(super().forward(x), 0.5, self.training)
        model = Net(2, 2)
        model(torch.ones(3, 2)).sum().backward()
        model.eval()
        with torch.no_grad():
            model(torch.ones(3, 2))
    """
    acts = trace.once(Acts)
    modes = trace.once(Modes)
    names = module_names(trace)
    told = set()
    for call in modes.dropouts:
        ran = modes.ran.get((call.module, False, False)) or modes.ran.get(
            (call.module, True, False)
        )
        site = site_of(trace, call.stack)
        if call.training not in ("", "True") or ran is None or site.place in told:
            continue
        told.add(site.place)
        module = modes.modules[call.module]
        where = f"{module.type} ({names[module.id]})" if names.get(module.id) else module.type
        yield Found(
            message=f"dropout is always on{at(site)}: it is called without training=self.training, "
            f"and {where} ran in eval mode{at(acts.site(ran))}",
            site=site,
            evidence=(Evidence("act", ran.id),),
            why="functional dropout drops unless training=False is passed, so the results of the "
            "model in eval mode are noisy",
            fix=_told_the_mode(site.text),
            certainty=Certainty.INFERRED,
            severity=Severity.NOTE if call.training else None,
        )


def _told_the_mode(text: str) -> str:
    start = text.find("dropout")
    close = _closing(text, text.find("(", start))
    if start < 0 or close < 0 or "training" in text:
        return "pass `training=self.training`"
    return f"write `{text[:close]}, training=self.training{text[close:]}`"


def _closing(text: str, opening: int) -> int:
    """Position of the bracket that closes the one that opens there."""
    depth = 0
    for place in range(max(opening, 0), len(text)):
        depth += (text[place] in "([{") - (text[place] in ")]}")
        if not depth and opening >= 0:
            return place
    return -1


@rule("GS514", "gradients-left-off", Severity.ERROR, reads=("act",))
def gradients_left_off(trace: Trace) -> Iterator[Found]:
    """set_grad_enabled(False) was called as a function, and training continued without gradients.

    Bad:
        model = torch.nn.Linear(2, 1)
        torch.set_grad_enabled(False)
        try:
            model(torch.ones(3, 2)).sum().backward()
        finally:
            torch.set_grad_enabled(True)

    Good:
        model = torch.nn.Linear(2, 1)
        with torch.set_grad_enabled(False):
            model(torch.ones(3, 2))
        model(torch.ones(3, 2)).sum().backward()
    """
    acts = trace.once(Acts)
    raised = [
        row
        for row in trace.rows(Finding)
        if "does not require grad and does not have a grad_fn" in row.message
    ]
    off = acts.of(GradOffAct)
    for error in raised[:1]:
        before = [act for act in off if act.t < error.t]
        if not before or before[-1].facts.by != "set_grad_enabled":
            continue
        act = before[-1]
        on = [act for act in acts.of(RanAct) if act.facts.grad]
        begins = trace.table(GraphTask)["begin"]
        if ((begins > act.t) & (begins < error.t)).any() or any(
            act.t < ran.t < error.t for ran in on
        ):
            continue
        site = acts.site(act)
        yield Found(
            message=f"gradients stay switched off: set_grad_enabled(False){at(site)} is "
            f"never undone, and the backward{at(site_of(trace, error.stack))} has no graph",
            site=site,
            evidence=(Evidence("act", act.id), Evidence("finding", error.id)),
            why="called as a function, it stays in effect; as a context manager, it ends with "
            "its block",
            fix="write `with torch.no_grad():` around the code that needs no gradients",
            certainty=Certainty.INFERRED,
        )


@rule("GS515", "inference-tensors", Severity.ERROR, reads=("act",))
def inference_tensors(trace: Trace) -> Iterator[Found]:
    """A tensor created under inference_mode was used where a graph is recorded.

    Bad:
        model = torch.nn.Linear(2, 1)
        with torch.inference_mode():
            features = torch.ones(3, 2) * 2
        model(features).sum().backward()

    Good:
        model = torch.nn.Linear(2, 1)
        with torch.no_grad():
            features = torch.ones(3, 2) * 2
        model(features).sum().backward()
    """
    acts = trace.once(Acts)
    raised = [
        row
        for row in trace.rows(Finding)
        if row.message.partition(":")[2]
        .lower()
        .lstrip()
        .startswith(("inference tensors cannot", "inplace update to inference tensor"))
    ]
    for error in raised[:1]:
        off = [
            act
            for act in acts.of(GradOffAct)
            if act.t < error.t and act.facts.by == "inference_mode"
        ]
        if not off:
            continue
        site = acts.site(off[-1])
        yield Found(
            message=f"a tensor created under inference_mode{at(site)} is used"
            f"{at(site_of(trace, error.stack))}, where a graph is recorded",
            site=site,
            evidence=(Evidence("act", off[-1].id), Evidence("finding", error.id)),
            why="such tensors can never be part of a graph; those created under no_grad can",
            fix=_no_grad_instead(site.text),
            certainty=Certainty.INFERRED,
            rewrite=rewritten(site, site.text.replace(INFERENCE, "torch.no_grad()")),
        )


INFERENCE = "torch.inference_mode()"


def _no_grad_instead(text: str) -> str:
    if "inference_mode" in text:
        return f"write `{text.replace('inference_mode', 'no_grad')}`"
    return "write `torch.no_grad()` instead of `torch.inference_mode()` there"


@rule("GS520", "train-undoes-eval", reads=("act",))
def train_undoes_eval(trace: Trace) -> Iterator[Found]:
    """A frozen part that was set to eval runs in training mode: train() of the model undid it.

    Batch norm in it then uses the statistics of each batch and changes its running statistics, and
    dropout drops, though none of its parameters is trained.

    Bad:
        backbone = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.BatchNorm1d(4))
        model = torch.nn.Sequential(backbone, torch.nn.Linear(4, 1))
        backbone.requires_grad_(False).eval()
        optimizer = torch.optim.SGD(model[1].parameters(), lr=0.1)
        model.train()
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.rand(3, 2)).pow(2).mean().backward()
            optimizer.step()

    Good:
        backbone = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.BatchNorm1d(4))
        model = torch.nn.Sequential(backbone, torch.nn.Linear(4, 1))
        backbone.requires_grad_(False)
        optimizer = torch.optim.SGD(model[1].parameters(), lr=0.1)
        model.train()
        backbone.eval()
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.rand(3, 2)).pow(2).mean().backward()
            optimizer.step()
    """
    loop, modes = trace.once(Loop), trace.once(Modes)
    training = trace.once(Training)
    switches, told = [*modes.switches()], set[int]()
    for off in switches:
        inside = modes.inside(off.module) if off.module in modes.modules else frozenset()
        own = modes.parameters(inside)
        if off.facts.to or not own or not own <= training.frozen:
            continue
        if own & training.reached_in(_since(trace, off.t)):
            continue
        ran = [act for each in sorted(inside & modes.two_ways) for act in _in_training(modes, each)]
        on = [
            each
            for each in switches
            if each.t > off.t
            and each.facts.to
            and each.module not in inside
            and (off.module in modes.inside(each.module) or _called_in(modes, off.module, each))
        ]
        again = [each.t for each in switches if each.module in inside and each.t > off.t]
        later = [
            (switch, act)
            for switch in on[:1]
            for act in ran
            if act.t > switch.t and not any(t < act.t for t in again)
        ]
        if later and loop.in_use and on[0].stack not in told:
            told.add(on[0].stack)
            yield _undone(loop, modes, off, *later[0])


def _since(trace: Trace, t: int) -> set[int]:
    """The backwards that began after this time."""
    tasks = trace.table(GraphTask)
    return set(tasks["id"][tasks["begin"] > t].tolist())


def _called_in(modes: Modes, part: int, on: Done[ActFacts]) -> bool:
    """Whether a part that was first called alone was later called in the module of a train()."""
    around = modes.inside(on.module) if on.module in modes.modules else frozenset()
    return any(act.t > on.t and act.inside in around for act in _in_training(modes, part))


def _in_training(modes: Modes, module: int) -> list[Done[ActFacts]]:
    found = (modes.ran.get((module, grad, True)) for grad in (True, False))
    return [act for act in found if act is not None]


def _undone(
    loop: Loop, modes: Modes, off: Done[ActFacts], on: Done[ActFacts], ran: Done[ActFacts]
) -> Found:
    site, before = loop.acts.site(on), loop.acts.site(off)
    row = modes.modules[ran.module]
    named = f"{row.type} ({row.path})" if row.path else row.type
    call = line(before, "backbone.eval()")
    again = f"write {call}" if "=" not in call else "call eval() of this part"
    return Found(
        message=f"train(){at(site)} undoes eval(){at(before)}: {named} runs in training mode, "
        "though all parameters around it are frozen",
        site=site,
        evidence=tuple(Evidence("act", act.id) for act in (off, on, ran)),
        why="train() of a module also sets all modules in it; batch norm then changes its running "
        "statistics at each forward, with or without gradients",
        fix=f"{again} after {line(site, 'model.train()')} as well",
    )
