"""PyTorch's answers, kept in files: what compares with it also runs where it is not installed.

A test asks one question after the other, of whichever engine it is given:

    @as_pytorch_answered({"nn/mistakes": MISTAKES})
    def test_it_is_said_as_pytorch_says_it(torch, code):
        return answer(torch, code)

It becomes two. One asks gradscope, everywhere, and compares with what is kept; the other, where
PyTorch is installed, asks PyTorch whether it still says so. `make answers` writes down what it says
now, in `pytorch/<family>.json`: a line for each question, to be reviewed in the diff.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.answers.comparing import differences
from tests.runtime.answers.writing import written_down

HOME = Path(__file__).with_name("pytorch")
MOST_SHOWN = 12
EXACTER = 1e3
"""So much closer are samples compared side by side, for which they say their tolerance."""

Questions = Mapping[str, Any]
Ask = Callable[[Any, Any], Any]
"""What an engine answers to a question: numbers, texts, tensors, and lists and dicts of them."""

MODULES = {"gradscope": "gradscope.runtime", "pytorch": "torch"}
ENGINES = ["gradscope", pytest.param("pytorch", marks=pytest.mark.torch)]

FAMILIES: dict[str, Questions] = {}
"""The questions of each family, by name, so far as their files have been read."""


def as_pytorch_answered(
    families: Mapping[str, Questions | Iterable[str]], tolerance: float = 1.0
) -> Callable[[Ask], Callable[..., None]]:
    """Ask both engines each question of each family, and compare with what is kept.

    Questions are named; those that are texts may name themselves. `tolerance` multiplies the usual
    one; a sample whose own is wider than all that keeps it.
    """
    asked = {
        name: dict(given) if isinstance(given, Mapping) else {each: each for each in given}
        for name, given in families.items()
    }
    FAMILIES.update(asked)

    def decorate(ask: Ask) -> Callable[..., None]:
        @pytest.mark.answers
        @pytest.mark.parametrize("engine", ENGINES)
        @pytest.mark.parametrize("family", sorted(asked))
        def test(family: str, engine: str, request: pytest.FixtureRequest) -> None:
            module = importlib.import_module(MODULES[engine])
            if engine == "pytorch" and request.config.getoption("--update-answers"):
                write(family, ((name, ask(module, each)) for name, each in asked[family].items()))
            wrong = list(
                differing(family, asked[family], lambda each: ask(module, each), tolerance)
            )
            if wrong:
                pytest.fail(told(family, wrong), pytrace=False)

        test.__doc__ = ask.__doc__
        test.pytestmark += getattr(ask, "pytestmark", [])  # type: ignore[attr-defined]
        return test

    return decorate


def differing(
    family: str, questions: Questions, ask: Callable[[Any], Any], tolerance: float
) -> Iterator[str]:
    """Which questions are answered otherwise than by PyTorch, and how."""
    known = kept(family)
    for name, question in questions.items():
        if name not in known:
            yield f"{name}: no answer of PyTorch's is kept"
            continue
        allowed = max(tolerance, getattr(question, "tolerance", 1.0) / EXACTER)
        try:
            found = written_down(ask(question))
        except (Exception, pytest.fail.Exception) as error:
            yield f"{name}: {type(error).__name__}: {error}"
            continue
        yield from (f"{name}: {each}" for each in differences(found, known[name], allowed))
    yield from (f"{name}: is not asked any more" for name in known.keys() - questions.keys())


def told(family: str, wrong: list[str]) -> str:
    shown = "\n".join(wrong[:MOST_SHOWN])
    more = f"\n… and {len(wrong) - MOST_SHOWN} more" if len(wrong) > MOST_SHOWN else ""
    return f"{len(wrong)} differ from what PyTorch answered ({path_of(family)}):\n{shown}{more}"


# -- files -------------------------------------------------------------------------------------


def path_of(family: str) -> Path:
    return HOME / f"{family}.json"


@cache
def kept(family: str) -> dict[str, Any]:
    """What PyTorch answered to the questions of a family, by their names."""
    path = path_of(family)
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def write(family: str, answers: Iterable[tuple[str, Any]]) -> None:
    """Keep these, a line for each question."""
    lines = [
        f"{json.dumps(name, ensure_ascii=False)}: "
        f"{json.dumps(written_down(answer), ensure_ascii=False, separators=(',', ':'))}"
        for name, answer in answers
    ]
    path = path_of(family)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8", newline="\n")
    kept.cache_clear()
