"""What everybody gets wrong on the first day is said in PyTorch's words."""

from __future__ import annotations

import numpy as np
import pytest

from tests.runtime.nn.test_against_pytorch import both

MISTAKES = """
F.cross_entropy(torch.ones(4, 3), torch.ones(4))
F.cross_entropy(torch.ones(4, 3), torch.ones(4).int())
F.cross_entropy(torch.ones(4, 3), torch.ones(4).bool())
F.cross_entropy(torch.ones(4, 3), torch.ones(4, 1).long())
F.cross_entropy(torch.ones(4, 3), torch.ones(4, 3).long())
F.cross_entropy(torch.ones(4, 3), torch.ones(4, 2))
F.cross_entropy(torch.ones(4, 3), torch.ones(4), label_smoothing=0.1)
F.cross_entropy(torch.ones(4, 3), torch.ones(4).long(), label_smoothing=2.0)
F.cross_entropy(torch.ones(4, 3), torch.ones(4).long(), label_smoothing=-1.0)
F.cross_entropy(torch.ones(4, 3), torch.ones(4).long(), weight=torch.ones(2))
F.cross_entropy(torch.ones(4, 3), torch.ones(4).long(), weight=torch.ones(3).double())
F.cross_entropy(torch.ones(4, 3), [0, 1, 2, 0])
F.cross_entropy(torch.ones(4, 3), torch.ones(4).byte())
F.nll_loss(torch.ones(4, 3), torch.ones(4))
F.nll_loss(torch.ones(1, 3, 2, 2), torch.ones(1, 2, 2))
F.nll_loss(torch.ones(1, 3, 2, 2), torch.ones(1, 1, 2, 2).long())
F.nll_loss(torch.ones(1, 3, 2, 2), torch.ones(1, 2, 2).long(), weight=torch.ones(2))
F.nll_loss(torch.ones(2, 3, 5), torch.ones(2, 5).int())
F.binary_cross_entropy(torch.ones(4), torch.ones(4).long())
F.binary_cross_entropy(torch.ones(4), torch.ones(4).double())
F.binary_cross_entropy_with_logits(torch.ones(4), torch.ones(4).long())
F.binary_cross_entropy_with_logits(torch.ones(4), torch.ones(4).bool())
nn.Linear(4, 3)(torch.ones(2, 4).double())
nn.Linear(4, 3)(torch.ones(2, 4).long())
nn.Linear(4, 3)(torch.ones(2, 2, 4).double())
nn.Linear(4, 3)(np.ones((2, 4)))
nn.Linear(4, 3)([1.0, 2.0])
nn.Linear(4, 3)(None)
nn.Linear("4", 3)
nn.Linear(4.0, 3)
torch.addmm(torch.ones(2), torch.ones(2, 2), torch.ones(2, 2).double())
torch.zeros("a")
torch.zeros(2.5)
torch.tensor("abc")
torch.tensor([1, "a"])
torch.tensor({1, 2})
torch.tensor({"a": 1})
int(torch.ones(2))
float(torch.ones(2))
torch.randint(3)
torch.randint((2, 3))
torch.randint(0, 5)
torch.randint(3, (2, 2.0))
torch.randn("a")
torch.rand(2, 2.0)
torch.full(2, 3)
torch.ones(2).reshape("a")
torch.ones(2).reshape(2, 1.0)
torch.ones(2).view("a")
torch.ones(2).view((2, "a"))
torch.ones(2).expand("a")
torch.ones(2).repeat("a")
torch.ones(2).permute("a")
torch.ones(2).masked_fill(torch.ones(2), 0)
torch.ones(2).masked_fill_(torch.ones(2).long(), 0)
torch.bmm(torch.ones(1, 2, 3), torch.ones(1, 3, 2).double())
torch.ones(1, 2, 3) @ torch.ones(1, 3, 2).half()
F.cosine_similarity(torch.ones(2, 3), torch.ones(2, 4))
nn.Sequential(nn.ReLU)
torch.meshgrid(torch.ones(2), torch.ones(2))[0]""".strip().split("\n")


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("code", MISTAKES)
def test_it_is_said_as_pytorch_says_it(code: str) -> None:
    found, expected = both(code, np=np)

    assert found == expected
