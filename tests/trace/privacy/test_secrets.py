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
        ("https://example.com/?key=q-88", "https://example.com/?key=***"),
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
    ("message", "shown"),
    [
        ("failed: password=inExc15, token: inExc16", "failed: password=***, token: ***"),
        (
            "db.password=abc, Authorization: Bearer abc",
            "db.password=***, Authorization: Bearer ***",
        ),
        ("token=abcdef password: pw api_key=k", "token=*** password: *** api_key=***"),
        ("password=p@ss,w;rd user=ann", "password=*** user=ann"),
        ("login(password=abc,user=ann)", "login(password=***,user=ann)"),
        ("TOKEN=hunter2 python train.py", "TOKEN=*** python train.py"),
        ("curl -H 'Authorization: token abc'", "curl -H 'Authorization: token ***'"),
        ("aws_secret_access_key = AbC/def+gh", "aws_secret_access_key = ***"),
        ("api_key=12345678, user_token=99ab", "api_key=***, user_token=***"),
        ("url: token=abc12", "url: token=***"),
        ("{'password': 12345678, 'lr': 0.1}", "{'password': '***', 'lr': 0.1}"),
        ('{"password":12345678}', '{"password":"***"}'),
        ('{"exit":"E: token=abc12\\" x"}', '{"exit":"E: token=***\\" x"}'),
        ("secret=abc\\nnext", "secret=***\\nnext"),
    ],
)
def test_a_secret_in_a_message_is_masked(message: str, shown: str) -> None:
    assert masked(message) == shown
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


@pytest.mark.parametrize(
    "message",
    [
        'Missing key(s) in state_dict: "a.weight"',
        'Error(s) in loading state_dict for Net:\n\tUnexpected key(s) in state_dict: "fc1.bias". ',
        "expected key: 'encoder.weight'",
        "unexpected key: encoder.layer1.0.weight",
        "state_dict key: layer4.1.bn2.running_mean",
        "KeyError: 'token'",
        "unknown token: 'hello'",
        "token: 50256 is out of range",
        "token <unk>, pad_token=<pad>, max_tokens=128",
        "tokens: 4096 per step, tokens/s: 1.2k, num_tokens=5",
        "tokens: int64, keys: float32, token: bfloat16",
        "tokens: torch.Size([2, 16]), token: tensor([1])",
        "key=query, key_padding_mask=None, token=None",
        "key: Tensor of shape (2, 3)",
        "TypeError: got an unexpected keyword argument 'token'",
        "train.py:4 (f(token=tokens, key=keys))",
        "forward pass: 12ms, pass: conv2d, passes: 3, bypass=layer3",
        "tokenizer=bpe32k, monkey=1a2b, author: Ann, secretary: ann7",
        "password=%s, password: {password}, wrong password: required",
        "a basic autoencoder, a basic MultiheadAttention block, the bearer of tidings",
        '{"max_tokens":128,"pad_token":5,"token":7}',
    ],
)
def test_messages_of_machine_learning_stay(message: str) -> None:
    assert masked(message) == message


def test_arguments_keep_their_order_and_number() -> None:
    given = [
        "--token", "hunter2-abc", "--lr", "0.1", "--db=postgres://ann:pw@host/x", "API_KEY=abc",
        "--max-tokens", "512", "--key", "7", "--password=abc", "hub.token=abc", "--verbose",
        "--secret", "-x", "data.csv", "--api-key", "9", "--pad-token", "<pad>",
        "--tokens", "tt-33", "--tokens", "web10.bin", "http://h/?key=q-88", "password: abcd-two",
    ]  # fmt: skip

    assert masked_arguments(given) == [
        "--token", "***", "--lr", "0.1", "--db=postgres://ann:***@host/x", "API_KEY=***",
        "--max-tokens", "512", "--key", "7", "--password=***", "hub.token=***", "--verbose",
        "--secret", "-x", "data.csv", "--api-key", "***", "--pad-token", "<pad>",
        "--tokens", "***", "--tokens", "web10.bin", "http://h/?key=***", "password: ***",
    ]  # fmt: skip
