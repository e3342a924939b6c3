"""Functions of ours go again, together or one by one, and all is as it was."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gradscope.record.acts.notes import NOBODY
from gradscope.record.acts.stand_ins import StandIns


class Home:
    def first(self) -> str:
        return "first"


class Heir(Home):
    def second(self) -> str:
        return "second"


def test_one_goes_before_the_others_and_what_was_inherited_is_inherited_again() -> None:
    acts: Any = SimpleNamespace(look=NOBODY)
    before = dict(vars(Heir))
    stand_ins = StandIns(acts, bool)
    for name in ("first", "second"):
        stand_ins.replace(Heir, name, lambda _: "ours")

    stand_ins.leave(Heir, "first")
    left = Heir().first(), Heir().second()
    stand_ins.take_back()

    assert left == ("first", "ours")
    assert dict(vars(Heir)) == before
