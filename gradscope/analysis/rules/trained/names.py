"""Rules about the names by which a program chooses its parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher

from gradscope.analysis.findings import Certainty, Evidence, Severity
from gradscope.analysis.identity.sites import Site, at
from gradscope.analysis.program.acts import Done
from gradscope.analysis.program.modules import module_names
from gradscope.analysis.program.training import Training
from gradscope.analysis.rules.own_line import code_of, instead
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.schema import Deed
from gradscope.trace.trace import Trace

ALIKE = 0.75
"""How much of a word is that of a part of a name, as difflib counts."""

PUNCTUATION = re.compile(r"[^a-z0-9]+")


@rule("GS417", "matches-no-name", Severity.WARNING, needs="engine", reads=("act",))
def matches_no_name(trace: Trace) -> Iterator[Found]:
    """Parameters are chosen by a word that is in none of their names, and nearly in some.

    What was to be trained stays frozen, or the other way round, and nothing says so. Read is the
    source of loops over named_parameters() and named_modules().

    Bad:
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
        model.register_module("lora_down", torch.nn.Linear(1, 1))
        for name, p in model.named_parameters():
            p.requires_grad = "lora.down" in name
        model(torch.ones(3, 2)).sum()

    Good:
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
        model.register_module("lora_down", torch.nn.Linear(1, 1))
        for name, p in model.named_parameters():
            p.requires_grad = "lora_down" in name
        model(torch.ones(3, 2)).sum()
    """
    training = trace.once(Training)
    several: dict[str, list[Done]] = {}
    for act in training.acts.of(Deed.STATEMENT):
        if act.facts.get("what") == "filter" and _words(act):
            several.setdefault(training.acts.site(act).place, []).append(act)
    names = _names(training) if several else []
    for acts in several.values() if names else ():
        found = _missing(acts, names)
        if found is not None:
            word, near, others = found
            yield _found(training.acts.site(acts[0]), acts[0], word, near, others=others)


def _words(act: Done) -> list[str]:
    words = act.facts.get("words")
    return [each for each in words if isinstance(each, str)] if isinstance(words, list) else []


def _names(training: Training) -> list[str]:
    """Of all parameters and modules that the trace knows, as their outermost modules have them."""
    modules = (name for name in module_names(training.trace).values() if name)
    return list(dict.fromkeys([*map(training.name, training.parameters), *modules]))


def _missing(acts: Sequence[Done], names: list[str]) -> tuple[str, str, bool] | None:
    """A word that is in no name, what it is nearly, and whether the line finds something else."""
    sought = [(str(act.facts.get("how")), word) for act in acts for word in _words(act)]
    missing = [word for how, word in sought if not any(_finds(how, word, each) for each in names)]
    there = {word for _, word in sought} - {*missing}
    freezes = any(act.facts.get("freezes") for act in acts)
    if not missing or (there and not freezes):
        return None
    left = [each for each in names if not any(word in each for word in there)]
    for word in missing:
        near = _nearest(word, left)
        if near:
            return word, near, bool(there)
    return None


def _finds(how: str, word: str, name: str) -> bool:
    """Whether it would find this name, or what is left of it inside some module."""
    if how == "in":
        return word in name
    parts = name.split(".")
    tails = [".".join(parts[first:]) for first in range(len(parts))]
    if how == "startswith":
        return any(each.startswith(word) for each in tails)
    if how == "endswith":
        return name.endswith(word)
    return word in tails


def _nearest(word: str, names: Iterable[str]) -> str:
    """The name that has a part which this word nearly is; "" where none has."""
    plain, best, found = PUNCTUATION.sub("", word.lower()), ALIKE, ""
    if len(plain) < 3:
        return ""
    for name in names:
        whole = PUNCTUATION.sub("", name.lower())
        parts = [each for each in re.split(r"[._]", name.lower()) if len(each) > 2]
        together = [*name.lower().split("."), *parts]
        ratios = (
            SequenceMatcher(None, plain, PUNCTUATION.sub("", each)).ratio() for each in together
        )
        alike = 1.0 if plain in whole else max(ratios, default=0.0)
        if alike > best or (alike == best and not found):
            best, found = alike, name
    return found


def _found(site: Site, act: Done, word: str, near: str, *, others: bool) -> Found:
    also = "; the other words of that line are found" if others else ""
    line = code_of(site.text)
    part = _meant(word, near)
    better = line.replace(word, part) if part and line.count(word) == 1 else ""
    return Found(
        message=f'no parameter\'s name has "{word}" in it, by which{at(site)} chooses: it passes '
        f"over `{near}`",
        site=site,
        evidence=(Evidence("act", act.id),),
        why=f'of the names that named_parameters() gives, none has "{word}", and `{near}` nearly '
        f"has it{also}: what was to be frozen or trained is not",
        fix=instead(better, line) if better else f"look for what is in `{near}`",
        certainty=Certainty.INFERRED,
    )


def _meant(word: str, near: str) -> str:
    """The part of a name that a word is nearly."""
    plain = PUNCTUATION.sub("", word.lower())
    parts = near.split(".")
    smaller = [*parts, *(each for part in parts for each in part.split("_"))]
    return max(
        smaller,
        key=lambda each: SequenceMatcher(None, plain, PUNCTUATION.sub("", each.lower())).ratio(),
        default="",
    )
