"""Values that are masked in the arguments are masked in all other texts of a trace."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from gradscope.trace.file.intern import InternedTexts
from gradscope.trace.load_save import load
from gradscope.trace.privacy.known import KnownSecrets, secrets_of

SCRIPT = """
import sys, warnings
import torch
said = "hunter2-abc" + 'pw-55-zz'  # hunter2-abc
x = torch.ones(2, requires_grad=True)
x.sum().backward(); name = "hunter2-abc"
warnings.warn(f"cannot reach {sys.argv[2]}")
raise RuntimeError(f"no login with {sys.argv[2]!r}, {sys.argv[3].partition('=')[2]}")
"""


def test_which_values_are_known() -> None:
    given = ["--token", "hunter2-abc", "--password=short", "--db=postgres://ann:pw-55-zz@h/x",
             "--lr", "0.001234", "--api-keys", "first1,second2"]  # fmt: skip

    assert secrets_of(given) == {
        "hunter2-abc", "pw-55-zz", "first1,second2", "first1", "second2",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("secret", "text", "shown"),
    [
        ("hunter2-abc", "no login with 'hunter2-abc'", "no login with '***'"),
        ("hunter2-abc", "hunter2-abc", "***"),
        ("hunter2-abc", "xhunter2-abcx", "x***x"),
        ("it's\\x", 'as repr "it\'s\\\\x"', 'as repr "***"'),
        ("a/b c+d", "?x=a%2Fb%20c%2Bd", "?x=***"),
        ("a/b c'd", "?x=a%2Fb%20c'd&y=a%2Fb+c%27d", "?x=***&y=***"),
        ("schlüssel1", '{"exit":"schl\\u00fcssel1"}', '{"exit":"***"}'),
        ("swordfish", "no login with swordfish", "no login with ***"),
        ("encoder", "encoder.weight", "encoder.weight"),
        ("backward", "backward", "backward"),
        ("engine", '{"level":"engine"}', '{"level":"engine"}'),
        ("123456", '{"pid":123456,"exit":"a b"}', '{"pid":123456,"exit":"a b"}'),
        ("123456", "no login with 123456.", "no login with ***."),
        ("123456", "a loss of 0.123456", "a loss of 0.123456"),
    ],
)
def test_texts(secret: str, text: str, shown: str) -> None:
    assert KnownSecrets([secret]).masked(text) == shown


@pytest.mark.parametrize(
    ("secret", "code", "shown"),
    [
        ("hunter2-abc", "x = 'hunter2-abc'  # hunter2-abc", "x = '***'  # ***"),
        ("encoder", "encoder = Encoder('encoder')", "encoder = Encoder('***')"),
        ("label2", "label2 = f'{label2} label2'", "label2 = f'{label2} ***'"),
        ("123456", "pin = 123456 + 0.123456", 'pin = "***" + 0.123456'),
    ],
)
def test_code(secret: str, code: str, shown: str) -> None:
    ast.parse(shown)
    assert KnownSecrets([secret]).masked_code(code) == shown


def test_texts_and_code_are_interned_separately() -> None:
    texts = InternedTexts()

    code = texts.intern_code("f(token=abcdef)  # password: abc")
    text = texts.intern("f(token=abcdef)  # password: abc")

    assert (texts[code], texts[text]) == ("f(token=abcdef)  # password: ***",) * 2
    assert texts.intern_code("token = abc123") != texts.intern("token = abc123")
    assert texts.intern_code("token = abc123") == texts.intern_code("token = abc123")
    assert texts.intern_code("") == texts.intern("") == 0


@pytest.mark.parametrize("options", [[], ["--no-arguments"]])
def test_a_recorded_program(tmp_path: Path, options: list[str]) -> None:
    script, trace = tmp_path / "train.py", tmp_path / "trace.json"
    script.write_text(SCRIPT)

    command = [sys.executable, "-m", "gradscope", "trace", "--on", "gradscope", *options]
    arguments = ["--token", "hunter2-abc", "--password=pw-55-zz"]
    subprocess.run(
        [*command, "-o", str(trace), str(script), *arguments], capture_output=True, check=False
    )

    text = trace.read_text("utf-8")
    assert "hunter2" not in text
    assert "pw-55" not in text
    assert load(trace).meta["exit"] == "RuntimeError: no login with '***', ***"
