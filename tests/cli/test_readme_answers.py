"""The session of questions in the README is what the gallery's traces answer."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from gradscope import cli

HOUSE = Path(__file__).parents[2]
README = (HOUSE / "README.md").read_text(encoding="utf-8")
SESSION = re.findall(
    r"\$ gradscope inspect (docs/gallery/\w+\.json --[^\n]+)\n(.*?)```", README, re.DOTALL
)
A_TIME = re.compile(r"[\d.,]+ (?:ns|µs|ms|s)\b")


def test_the_questions_in_the_readme_are_answered_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(HOUSE)

    answers = []
    for asked, _ in SESSION:
        with pytest.raises(SystemExit):
            cli.main(["inspect", "--width", "100", *shlex.split(asked)])
        answers.append(A_TIME.sub("", capsys.readouterr().out))

    assert len(answers) >= 4
    assert answers == [A_TIME.sub("", shown) for _, shown in SESSION]
