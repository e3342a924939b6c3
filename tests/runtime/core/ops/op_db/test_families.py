"""A question that is asked of many samples fails with all that differ."""

from __future__ import annotations

import pytest

from tests.runtime.core.ops.op_db.families import CALLS, REFUSED, ask, is_chosen, named
from tests.runtime.oracle import SAMPLES, WRONG


def test_every_sample_that_differs_is_named_with_what_it_says() -> None:
    def question(number: int) -> None:
        assert number % 2 == 0, f"{number} is odd\n\nand that is that"
        if number > 3:
            raise ValueError("too large")

    with pytest.raises(AssertionError) as failed:
        ask(question, [("mul-0", 1), ("mul-1", 2), ("add-0", 3), ("add-1", 4)])

    first, *told = str(failed.value).splitlines()
    assert first == "3 differ:"
    assert [line.partition(":")[0] for line in told] == ["mul-0", "add-0", "add-1"]
    assert told[0].startswith("mul-0: AssertionError: 1 is odd | and that is that")
    assert told[2] == "add-1: ValueError: too large"
    assert isinstance(failed.value.__cause__, AssertionError)


def test_what_pytest_calls_a_failure_is_one_too() -> None:
    def question(_: int) -> None:
        with pytest.raises(ValueError, match="never"):
            pass

    with pytest.raises(AssertionError, match="1 differ:\nmul-0: Failed: DID NOT RAISE"):
        ask(question, [("mul-0", 1)])


def test_all_samples_are_asked_and_each_has_a_family() -> None:
    assert len(CALLS) == sum(map(len, SAMPLES.values()))
    assert len(REFUSED) == sum(map(len, WRONG.values()))
    assert all(each.family for _, each in [*CALLS, *REFUSED])
    assert named({"b": [1], "a": [2, 3]}) == [("a-0", 2), ("a-1", 3), ("b-0", 1)]


def test_one_sample_or_one_operations_can_be_chosen() -> None:
    names = ["mul-1", "mul-11", "mul_-1"]

    assert [name for name in names if is_chosen(name, None)] == names
    assert [name for name in names if is_chosen(name, "mul")] == ["mul-1", "mul-11"]
    assert [name for name in names if is_chosen(name, "mul-1")] == ["mul-1"]
