"""What a run is told, on the command line or in a JSON file."""

import argparse
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path


@dataclass(frozen=True)
class Config:
    epochs: int = 2
    batch_size: int = 8
    accumulate: int = 2
    workers: int = 0
    lr: float = 3e-3
    weight_decay: float = 1e-2
    warmup: int = 2
    clip: float = 1.0
    amp: bool = False
    checkpointing: bool = False
    ema: float = 0.9
    samples: int = 64
    width: int = 8
    depth: int = 2
    seed: int = 0
    out: str = "runs"
    resume: bool = False

    @property
    def folder(self) -> Path:
        return Path(self.out)

    def save(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "config.json").write_text(json.dumps(asdict(self), indent=2))


def parse(words=None) -> Config:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", help="a JSON file with any of these")
    for field in fields(Config):
        name = f"--{field.name.replace('_', '-')}"
        if field.type is bool or field.type == "bool":
            parser.add_argument(name, action=argparse.BooleanOptionalAction, default=None)
        else:
            parser.add_argument(name, type=type(field.default), default=None)
    given = vars(parser.parse_args(words))
    file = given.pop("config")
    settings = json.loads(Path(file).read_text()) if file else {}
    settings.update({name: value for name, value in given.items() if value is not None})
    return Config(**settings)
