"""Which lines of a program's own functions matter."""

from __future__ import annotations

from pathlib import Path

from gradscope.record.acts.source.source_lines import lines_that_return

FUNCTIONS = """\
def warm_up(step):
    if step < 5:
        return step / 5
    def inner():
        return 0
    return max(
        0.0, 1 - step / 20
    )

plain = (
    lambda step:
    0.5 ** step
)
"""


def test_a_function_returns_where_its_source_says(tmp_path: Path) -> None:
    path = tmp_path / "rates.py"
    path.write_text(FUNCTIONS, encoding="utf-8")
    space: dict[str, object] = {}
    exec(compile(FUNCTIONS, str(path), "exec"), space)

    found = [lines_that_return(space[name].__code__) for name in ("warm_up", "plain")]  # type: ignore[attr-defined]

    assert found == [[3, 6], [11]]
