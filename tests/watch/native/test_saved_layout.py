"""Where machine code reads what nodes keep: only what is certain is used."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.torch


def test_memory_that_happens_to_hold_the_same_is_not_taken_for_the_need_of_a_gradient() -> None:
    """It held ones where leaves were made, now and then, and graphs were walked from Python."""
    from gradscope.watch.native import saved_layout as known

    where = known.saved_layout()

    class Chance(known._Memory):
        """In the last byte of a history stands what it needed when that was first looked at."""

        def __init__(self) -> None:
            super().__init__()
            self._first: dict[int, int] = {}

        def words(self, address: int, count: int) -> Any:
            words = super().words(address, count)
            if count != known.WORDS_OF_HISTORY or not words:
                return words
            need = words[where.needs.word // 8] >> where.needs.shift & 0xFF
            return (*words[:-1], self._first.setdefault(address, need))

    memory = Chance()
    try:
        assert known._byte(memory, where.history // 8) == where.needs
    finally:
        memory.close()
