"""Rules about the names by which a program selects its parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher

from gradscope.analysis.findings import Certainty
from gradscope.analysis.identity.sites import at
from gradscope.analysis.program.modules import module_names
from gradscope.analysis.program.training import Training
from gradscope.analysis.rules.own_line import code_of, instead
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.source.files import InSource, SourceFiles
from gradscope.analysis.source.filters import Filter, filters
from gradscope.trace.trace import Trace

ALIKE = 0.75
"""Least similarity of a word to a part of a name, as difflib measures it."""

PUNCTUATION = re.compile(r"[^a-z0-9]+")


@rule("GS417", "matches-no-name", reads=("source",))
def matches_no_name(trace: Trace) -> Iterator[Found]:
    """Parameters are selected by a word that no name contains, but some nearly do (a typo).

    Parameters that should be trained stay frozen, or the reverse, without any error. The rule reads
    the source of loops over named_parameters() and named_modules().

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
    several: dict[str, list[InSource[Filter]]] = {}
    for each in trace.once(SourceFiles).each(filters):
        several.setdefault(each.site.place, []).append(each)
    names = _names(training) if several else []
    for every in several.values() if names else ():
        found = _missing([each.found for each in every], names)
        if found is not None:
            word, near, others = found
            yield _found(every[0], word, near, others=others)


def _names(training: Training) -> list[str]:
    """Names of all recorded parameters and modules, as their outermost modules have them."""
    modules = (name for name in module_names(training.trace).values() if name)
    return list(dict.fromkeys([*map(training.name, training.parameters), *modules]))


def _missing(every: Sequence[Filter], names: list[str]) -> tuple[str, str, bool] | None:
    """A word in no name, the name it nearly matches, and whether the line matches others."""
    sought = [(each.how, word) for each in every for word in each.words]
    missing = [word for how, word in sought if not any(_finds(how, word, each) for each in names)]
    there = {word for _, word in sought} - {*missing}
    freezes = any(each.freezes for each in every)
    if not missing or (there and not freezes):
        return None
    left = [each for each in names if not any(word in each for word in there)]
    for word in missing:
        near = _nearest(word, left)
        if near:
            return word, near, bool(there)
    return None


def _finds(how: str, word: str, name: str) -> bool:
    """Whether a filter finds this name, or the rest of it inside some module."""
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
    """The name that has a part similar to this word; "" if none has."""
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


def _found(sought: InSource[Filter], word: str, near: str, *, others: bool) -> Found:
    site = sought.site
    also = "; the other words of that line match" if others else ""
    line = code_of(site.text)
    part = _meant(word, near)
    better = line.replace(word, part) if part and line.count(word) == 1 else ""
    return Found(
        message=f'no parameter name contains "{word}", by which the line{at(site)} selects: it '
        f"skips `{near}`",
        site=site,
        evidence=(sought.evidence,),
        why=f'no name from named_parameters() contains "{word}", but `{near}` nearly '
        f"does{also}: so the parameters that should be frozen or trained are not selected",
        fix=instead(better, line) if better else f"use a word that is in `{near}`",
        certainty=Certainty.INFERRED,
    )


def _meant(word: str, near: str) -> str:
    """The part of a name that is most similar to a word."""
    plain = PUNCTUATION.sub("", word.lower())
    parts = near.split(".")
    smaller = [*parts, *(each for part in parts for each in part.split("_"))]
    return max(
        smaller,
        key=lambda each: SequenceMatcher(None, plain, PUNCTUATION.sub("", each.lower())).ratio(),
        default="",
    )
