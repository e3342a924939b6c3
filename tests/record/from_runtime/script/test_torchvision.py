"""Scripts that import torchvision: a stand-in serves where the real package is absent."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests.record.running import House

absent = pytest.mark.skipif(find_spec("torchvision") is not None, reason="torchvision is there")

SCRIPT = """
import torchvision
import torchvision.transforms as transforms
from torchvision import datasets, models
from torchvision.transforms import functional as TF
print(models.resnet18(num_classes=2).fc, transforms.Compose([transforms.ToTensor()]))
print(torchvision.models is models, datasets.MNIST.__name__, TF.hflip.__name__)
"""


@absent
def test_a_stand_in_serves_and_that_is_said_once(house: House) -> None:
    house.write(SCRIPT)

    ran = house.trace("script.py")

    assert ran.out == (
        "Linear(in_features=512, out_features=2, bias=True) Compose(\n    ToTensor()\n)\n"
        "True MNIST hflip\n"
    )
    assert ran.err.count("a small stand-in instead") == 1


@absent
def test_what_the_stand_in_lacks_is_named_in_torchvisions_words(house: House) -> None:
    house.write("from torchvision.models import resnet19\n")

    ran = house.trace("script.py")

    assert ran.code == 1
    assert (
        "ImportError: cannot import name 'resnet19' from 'torchvision.models' (gradscope's runtime)"
        "; the nearest there is: resnet18"
    ) in ran.err


def test_the_real_package_is_left_alone_and_its_needs_are_named(house: House) -> None:
    house.write("import torch\ntorch.nothing_of_the_kind\n", "torchvision/__init__.py")
    house.write("import torchvision\n")

    ran = house.trace("script.py")

    assert ran.code == 1
    assert "small stand-in instead" not in ran.err
    assert "needs functions of PyTorch" in ran.err


def test_a_real_package_that_needs_nothing_more_just_works(house: House) -> None:
    house.write("import torch\nanswer = torch.ones(2).sum().item()\n", "torchvision/__init__.py")
    house.write("import torchvision\nprint(torchvision.answer)\n")

    ran = house.trace("script.py")

    assert (ran.code, ran.out, ran.err) == (0, "2.0\n", "")
