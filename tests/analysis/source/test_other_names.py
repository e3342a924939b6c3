"""A call with what has another name, too, that is read later, is told; what was copied is not."""

from __future__ import annotations

import ast

from gradscope.analysis.source.other_names import other_names

SCRIPT = """\
def block(self, x):
    identity = x
    out = self.relu(x)  # told
    out = self.conv(out)
    return out + identity

def method(x):
    before = x
    x.mul_(2)  # told
    return x - before

def copied(self, x):
    identity = x.clone()
    out = self.relu(x)
    return out + identity

def never_read(self, x):
    identity = x
    return self.relu(x)

def renamed(self, x):
    identity = x
    x = self.norm(x + 1) if x is None else self.stem(y)
    out = self.relu(x)
    return out + identity

def given_anew(self, x):
    identity = x
    out = self.relu(x)
    identity = self.down(out)
    return out + identity
"""


def test_the_first_call_with_the_other_name_is_told() -> None:
    told = [line for line, text in enumerate(SCRIPT.splitlines(), 1) if "# told" in text]

    assert [each.line for each in other_names(ast.parse(SCRIPT))] == told
