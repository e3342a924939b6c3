"""How often a recording is written before the program waits for other processes."""

from __future__ import annotations

from gradscope.record.process.pace import ACCOUNT, SHARE, FlushPace

FLUSH, STEP = 5_000_000, 1_000_000


def flushes(pace: FlushPace, since: int, calls: int, *, is_new: bool = False) -> int:
    """Number of flushes before calls, one each STEP."""
    many = 0
    for call in range(calls):
        if pace.affords(since + call * STEP, is_new=is_new):
            pace.took(FLUSH)
            many += 1
    return many


def test_all_calls_are_written_at_first_and_later_as_many_as_the_share_allows() -> None:
    pace, first = FlushPace(0), ACCOUNT // FLUSH

    assert flushes(pace, 0, first) == first
    many = flushes(pace, first * STEP, 10_000)
    assert many * FLUSH <= 10_000 * STEP / SHARE + 2 * FLUSH
    assert many > 30


def test_new_calls_are_written_when_the_account_is_empty_but_not_for_ever() -> None:
    pace = FlushPace(0)
    flushes(pace, 0, 1000)

    now = 1000 * STEP
    assert pace.affords(now, is_new=True)
    assert not pace.affords(now, is_new=False)
    assert flushes(pace, now, 1000, is_new=True) <= ACCOUNT // FLUSH + 5
