"""What looks like a secret is masked, and nothing else."""

from __future__ import annotations

import pytest

from gradscope.trace.privacy.secrets import masked, masked_arguments

KEY = "sk-proj-0123456789abcdefgh"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('API_KEY = "abc"', 'API_KEY = "***"'),
        ("password: str = 'abc'", "password: str = '***'"),
        ('login(user="ann", password="it\\\'s")', 'login(user="ann", password="***")'),
        ('os.environ["WANDB_API_KEY"] = "abc"', 'os.environ["WANDB_API_KEY"] = "***"'),
        ('os.environ.setdefault("HF_TOKEN", "abc")', 'os.environ.setdefault("HF_TOKEN", "***")'),
        ('{"clientSecret": "abc", "lr": "0.1"}', '{"clientSecret": "***", "lr": "0.1"}'),
        ('"{\\"password\\": \\"abc\\"}"', '"{\\"password\\": \\"***\\"}"'),
        ('if pwd == "abc": pass', 'if pwd == "***": pass'),
        ('key = "0123456789abcdef01"', 'key = "***"'),
        ("postgres://ann:abc@db.example/x", "postgres://ann:***@db.example/x"),
        ("https://example.com/?a=1&token=abc&b=2", "https://example.com/?a=1&token=***&b=2"),
        ('{"Authorization": f"Bearer {key}"}', '{"Authorization": f"***"}'),
        ("header: Bearer abc.def.ghi", "header: Bearer ***"),
        (f"print('{KEY}')", "print('***')"),
        ("ghp_" + "a" * 36, "***"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nabc\ndef\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN RSA PRIVATE KEY-----***\n\n\n-----END RSA PRIVATE KEY-----",
        ),
    ],
)
def test_a_secret_is_masked(text: str, shown: str) -> None:
    assert masked(text) == shown
    assert masked(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        'tokenizer.pad_token = "<pad>"',
        'token = "[MASK]"',
        'eos_token = "</s>"',
        'key = "loss"',
        'for key, value in {"weight": "decay"}.items():',
        'state["key_padding_mask"]',
        "q, k = self.query(x), self.key(x)",
        'keys = ("a", "b")',
        "token_embedding.weight",
        'mask = torch.tensor([1], dtype=torch.bool), "token"',
        "def forward(self, tokens, key=None): return 'x'",
        'passes = "three"',
        "http://example.com:8080/x",
        'raise KeyError(f"no parameter {name}")',
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert masked(text) == text


def test_arguments_keep_their_order_and_number() -> None:
    given = [
        "--token", "hunter2-abc", "--lr", "0.1", "--db=postgres://ann:pw@host/x", "API_KEY=abc",
        "--max-tokens", "512", "--key", "7", "--password=abc", "hub.token=abc", "--verbose",
        "--secret", "-x", "data.csv", "--api-key", "9", "--pad-token", "<pad>",
    ]  # fmt: skip

    assert masked_arguments(given) == [
        "--token", "***", "--lr", "0.1", "--db=postgres://ann:***@host/x", "API_KEY=***",
        "--max-tokens", "512", "--key", "7", "--password=***", "hub.token=***", "--verbose",
        "--secret", "-x", "data.csv", "--api-key", "***", "--pad-token", "***",
    ]  # fmt: skip
