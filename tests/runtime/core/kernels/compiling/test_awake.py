"""Who waits for a piece, or for its end, is told by two counts, and goes on without them."""

from __future__ import annotations

from gradscope.runtime.core.kernels.compiling.awake import DONE, GIVEN, Counts


def told(counts: Counts) -> tuple[int, int]:
    return int(counts.words[GIVEN // 8]), int(counts.words[DONE // 8])


def test_who_rests_tells_that_a_piece_is_done() -> None:
    counts = Counts()
    counts.given()
    counts.rest()  # before the first piece, of which none is done
    assert told(counts) == (1, 0)

    counts.given()
    counts.rest()
    assert told(counts) == (2, 1)


def test_nobody_waits_for_ever() -> None:
    counts = Counts()
    counts.rest()
    counts.given()
    counts.until_done()
    assert told(counts) == (1, 0)
