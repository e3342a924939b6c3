"""In source texts, secrets are masked in literals and comments; code stays, and can be parsed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from gradscope.trace.privacy.secrets import masked, masked_code

SAMPLES = sorted((Path(__file__).parents[3] / "samples").rglob("*.py"))


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("x = 1  # token=inline-cmt-8888", "x = 1  # token=***"),
        ('f("db.password=inCfg05")', 'f("db.password=***")'),
        ('f("api_key: inYaml06")', 'f("api_key: ***")'),
        ('CFG = \'{"token": "inJson07"}\'', 'CFG = \'{"token": "***"}\''),
        ('f("password=abc and token=def2")', 'f("password=*** and token=***")'),
        ('os_token = "inVar10"', 'os_token = "***"'),
        ('class C: token = "inAttr12"', 'class C: token = "***"'),
        ('tokens = ["inList1", "inList2"]', 'tokens = ["***", "***"]'),
        ('api_keys = ("a", "b")', 'api_keys = ("***", "***")'),
        ("f\"token={'inF13'}\"", "f\"token={'***'}\""),
        ('f"{{token: inX12}}"', 'f"{{token: ***}}"'),
        ('f"{g(token=tokenizer)} password=abc"', 'f"{g(token=tokenizer)} password=***"'),
        ('PASS = "swordfish"', 'PASS = "***"'),
        ('conf = "token: yaml-tok-4"', 'conf = "token: ***"'),
        ('x = b"password=abc\\n"', 'x = b"password=***\\n"'),
        ('s = """\ntoken: inMulti9\npassword: abc\n"""', 's = """\ntoken: ***\npassword: ***\n"""'),
    ],
)
def test_a_secret_is_masked(code: str, shown: str) -> None:
    ast.parse(shown)
    assert masked_code(code) == shown
    assert masked_code(shown) == shown


@pytest.mark.parametrize(
    "code",
    [
        "token = tokenizer(x)",
        "token = abcdef1",
        "def f(key: Tensor, token: Tensor = None, password: str = x): return key",
        'def f(token: "Tensor"): pass',
        'pad_token, mask_token, eos_token = "<pad>", "[MASK]", "eos1"',
        "token_ids = ids",
        "num_tokens = 5",
        "attention(key=query, value=value, max_tokens=128, token=embedded)",
        'keys = ["layer1", "layer2"]',
        'key = "encoder.layers.10.attention.weight"',
        'tokens = ["hello", "world"]',
        'vocab = {"token": 5, "key": 7}',
        'special = ["token", "position"]',
        'first_pass = "conv2d"',
        'print(f"token: {token}, key: {key}, password: {password}")',
        '"the token: an index; key: the keys; password: required"',
        "x = 1  # a basic training loop, key: Tensor",
        "join(pwd, './data/x.csv')",
    ],
)
def test_code_of_machine_learning_stays(code: str) -> None:
    ast.parse(code)
    assert masked_code(code) == code


@pytest.mark.parametrize("path", SAMPLES, ids=[path.name for path in SAMPLES])
def test_samples_stay(path: Path) -> None:
    text = path.read_text("utf-8")

    assert masked_code(text) == text


@pytest.mark.parametrize(
    "part",
    ["a", "key", "token: ", "'a' ", "a:b ", "a.", "://", "?token=&", "bearer a", "'''", "{", "key-",
     "password=,", "a, ", "key=['a' ", "f'{", "\\", "# "],
)  # fmt: skip
def test_long_texts_take_linear_time(part: str) -> None:
    text = "key " + part * 20_000 + " password=abc"  # in quadratic time, this takes minutes

    assert masked(text).endswith("***")
    assert "token" in masked_code(text + " token")
