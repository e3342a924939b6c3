"""Rules about statements without effect."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gradscope.analysis.findings import Certainty, Evidence, Rewrite
from gradscope.analysis.identity.sites import Site, at, site_of
from gradscope.analysis.lookups import grouped
from gradscope.analysis.program.acts import Acts, Done
from gradscope.analysis.rules.loop.order import gradients_add_up
from gradscope.analysis.rules.own_line import MODE_STAYS, as_call, code_of, one_statement, rewritten
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.source.files import InSource, SourceFiles
from gradscope.analysis.source.misspelt import Misspelt, misspelt
from gradscope.analysis.source.statements import idle_statements, own_methods
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import Act, AssignedAct, HookAct, Op, StepAct
from gradscope.trace.trace import Trace

MODAL = re.compile("Dropout|BatchNorm|InstanceNorm|RReLU")
"""Types of modules that behave differently in evaluation."""

OF_TENSORS = ("dropped", "computed")
"""Statements that do nothing if their operands are tensors; others may be anything."""


@rule("GS707", "no-effect", reads=("act", "source"))
def no_effect(trace: Trace) -> Iterator[Found]:
    """A statement has no effect: a method not called, a result discarded, a name misspelled.

    `optimizer.zero_grad` without parentheses only names the method. `h.detach()` returns a tensor
    and leaves `h` unchanged. `torch.no_grad()` must be entered with `with`. Assigning to a loop's
    variable changes no parameter. `p.require_grad = False` creates an attribute that nothing reads,
    and so does `optimizer.lr = …`. The rule reads the program's files in which code ran. It
    reports a discarded result only at a line that did something with tensors, or at the end of a
    hook.

    Bad:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
        model.eval

    Good:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
        model.eval()
    """
    acts, sources = trace.once(Acts), trace.once(SourceFiles)
    own = {each.found.name for each in sources.each(own_methods)}
    ran = trace.once(_places_with_tensors)
    hooks = {each.facts.hook.rpartition(".")[2] for each in acts.of(HookAct)}
    for each in sources.each(idle_statements):
        if each.found.what == "dropped" and each.found.name in own:
            continue
        confirmed = each.site.place in ran or each.found.name in hooks
        if each.found.what in OF_TENSORS and not confirmed:
            continue
        in_words = _IN_WORDS.get(each.found.what)
        adds_up = each.found.name == "zero_grad" and any(gradients_add_up(trace))
        if in_words is not None and not adds_up:  # GS501 reports it
            yield in_words(each.evidence, each.site, each.found.name)
    for slip in sources.across(misspelt):
        yield _misspelt(slip)
    yield from _settings(acts)
    yield from _modes(acts)


def _places_with_tensors(trace: Trace) -> set[str]:
    """The lines at which the program did something with tensors."""
    stacks = {
        *distinct(trace.table(Op)["stack"]).tolist(),
        *distinct(trace.table(Act)["stack"]).tolist(),
    }
    return {site_of(trace, each).place for each in stacks}


def _settings(acts: Acts) -> Iterator[Found]:
    """`optimizer.lr = x`, which leaves the parameter groups unchanged."""
    every = (act for act in acts.of(AssignedAct) if act.facts.what == "setting")
    other = (act for act in every if repr(act.facts.to) != repr(act.facts.there))
    steps = acts.of(StepAct)
    for (_, name), found in grouped(other, lambda act: (act.stack, act.facts.name)).items():
        act = found[0]
        after = next((step for step in steps if step.of == act.of and step.t > act.t), None)
        if name == "lr" and after is not None and act.facts.to in after.facts.lr:
            continue  # the groups got it as well
        site, within = acts.site(act), act.facts.within
        owner, _, value = _code(site).partition(f".{name} =")
        groups = f"for group in {owner or 'optimizer'}.param_groups:"
        better = f"{groups} group['{name}'] = {value.strip()}"
        yield Found(
            message=f"`{_code(site)}`{at(site)} has no effect: {within} reads no attribute "
            f"`{name}`, and its groups still use {act.facts.there}",
            site=site,
            evidence=(Evidence("act", act.id),),
            why="the settings of an optimizer are in its param_groups; Python creates an attribute "
            f"for any name that is assigned{_times(found)}",
            fix=f"write `{better}`" if value.strip() else f"set `group['{name}']` of each group",
            rewrite=rewritten(site, better * bool(value.strip()), "the settings will change"),
        )


def _modes(acts: Acts) -> Iterator[Found]:
    """`net.training = False`, which leaves the modules inside in the other mode."""
    flags = (act for act in acts.of(AssignedAct) if act.facts.what == "flag")
    modes = (act for act in flags if act.facts.name == "training")
    for found in grouped(modes, lambda act: act.stack).values():
        act, left = found[0], [t for t in found[0].facts.left if MODAL.search(t)]
        of_all = len({(each.module, each.facts.within) for each in found}) > 1
        if not left or of_all:
            continue
        site, within = acts.site(act), act.facts.within
        mode, other = ("train", "evaluation") if act.facts.to else ("eval", "training")
        owner = _code(site).partition(".training")[0]
        yield Found(
            message=f"`{_code(site)}`{at(site)} sets the mode of {within} only: "
            f"{' and '.join(left)} in it {'stays' if len(left) == 1 else 'stay'} in {other} mode",
            site=site,
            evidence=(Evidence("act", act.id),),
            why="each module has its own mode; train() and eval() also set those of all modules "
            f"inside{_times(found)}",
            fix=f"write `{owner}.{mode}()` instead of `{_code(site)}`",
            rewrite=_in_mode(site, f"{owner}.{mode}()"),
        )


def _in_mode(site: Site, call: str) -> Rewrite | None:
    """The call instead of `net.training = False`; None for a value that is computed."""
    match one_statement(_code(site)):
        case ast.Assign(targets=[_], value=ast.Constant()):
            return rewritten(site, call, MODE_STAYS)
    return None


def _times(found: list[Done[AssignedAct]]) -> str:
    return f"; this happened {len(found)} times" if len(found) > 1 else ""


def _code(site: Site) -> str:
    return code_of(site.text)


def _not_called(evidence: Evidence, site: Site, name: str) -> Found:
    return Found(
        message=f"`{_code(site)}`{at(site)} has no effect: {name} is named, but not called",
        site=site,
        evidence=(evidence,),
        why="without parentheses it is only a reference to the method",
        fix=f"write `{_code(site)}()`",
        rewrite=as_call(site),
    )


def _dropped(evidence: Evidence, site: Site, name: str) -> Found:
    owner, dot, _ = _code(site).rpartition(f".{name}(")
    plain = dot and owner.replace("_", "").isalnum() and owner not in ("torch", "F")
    return Found(
        message=f"`{_code(site)}`{at(site)} has no effect: {name}() returns a new tensor, which is "
        "discarded",
        site=site,
        evidence=(evidence,),
        why="the tensor it was called on stays unchanged"
        + (", with its graph" if name == "detach" else ""),
        fix=f"write `{owner} = {_code(site)}`" if plain else "assign the result to a name",
        rewrite=rewritten(
            site, f"{owner} = {_code(site)}" * bool(plain), f"`{owner}` will be another tensor"
        ),
    )


def _computed(evidence: Evidence, site: Site, name: str) -> Found:
    code = _code(site)
    ends = bool(name)
    return Found(
        message=f"`{code}`{at(site)} has no effect: the result is discarded"
        + (", and its function returns None" if ends else ""),
        site=site,
        evidence=(evidence,),
        why="an operator returns a new tensor, and leaves its operands unchanged"
        + ("; a hook that returns None changes no gradient" if ends else ""),
        fix=f"write `return {code}`" if ends else "assign the result to a name",
        rewrite=rewritten(site, f"return {code}" * ends, "the function will return a tensor"),
    )


def _not_entered(evidence: Evidence, site: Site, name: str) -> Found:
    return Found(
        message=f"`{_code(site)}`{at(site)} has no effect: the context is created, but not entered",
        site=site,
        evidence=(evidence,),
        why=f"{name} only has an effect inside a `with` block",
        fix=f"write `with {_code(site)}:` and indent the lines it should cover",
    )


def _loop_variable(evidence: Evidence, site: Site, name: str) -> Found:
    return Found(
        message=f"`{_code(site)}`{at(site)} has no effect: it rebinds `{name}`, the loop's "
        "variable, to another tensor, and the parameter stays unchanged",
        site=site,
        evidence=(evidence,),
        why=f"`{name}` refers to the parameter only until it is rebound, and nothing reads it "
        "afterwards",
        fix=f"write to it in place, under `torch.no_grad()`: `{name}.copy_(…)`",
    )


def _misspelt(slip: InSource[Misspelt]) -> Found:
    name, meant, site = slip.found.name, slip.found.meant, slip.site
    code = _code(site)
    better = code.replace(name, meant, 1)
    return Found(
        message=f"`{code}`{at(site)} has no effect: autograd reads no attribute `{name}`; "
        f"`{meant}` is probably meant",
        site=site,
        evidence=(slip.evidence,),
        why="Python creates an attribute for any name that is assigned; nothing in the program "
        f"reads `{name}`, and `{meant}` stays unchanged",
        fix=f"write `{better}`"
        + (" (of a module: call `requires_grad_(…)`)" if meant == "requires_grad" else ""),
        certainty=Certainty.INFERRED,
        rewrite=rewritten(site, better, "for a module, call `requires_grad_(…)`"),
    )


def _defaults(evidence: Evidence, site: Site, name: str) -> Found:
    owner, _, value = _code(site).partition(".defaults")
    value = value.partition("=")[2].strip()
    return Found(
        message=f"`{_code(site)}`{at(site)} has no effect on existing parameter groups: each has "
        f"its own `{name}`",
        site=site,
        evidence=(evidence,),
        why="an optimizer reads its defaults when a group is added, and not in steps",
        fix=f"write `for group in {owner}.param_groups: group['{name}'] = {value}`",
        certainty=Certainty.INFERRED,
    )


_IN_WORDS = {
    "not-called": _not_called,
    "dropped": _dropped,
    "computed": _computed,
    "not-entered": _not_entered,
    "loop-variable": _loop_variable,
    "defaults": _defaults,
}
