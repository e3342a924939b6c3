"""The loop: epochs of steps, each of several batches; evaluation and a checkpoint after each."""

import json
import logging
import math
import random
from contextlib import nullcontext

import torch
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from .data import SHAPES, loaders
from .model import Average, Network
from .state import load, mean_of_all, save, together

log = logging.getLogger("shapes")


def schedule(optimizer, config, steps):
    def factor(step):
        if step < config.warmup:
            return (step + 1) / config.warmup
        done = (step - config.warmup) / max(steps - config.warmup, 1)
        return 0.5 * (1 + math.cos(math.pi * done))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def groups(model, config):
    """No decay for biases and norms."""
    decayed, plain = [], []
    for parameter in model.parameters():
        (decayed if parameter.ndim > 1 else plain).append(parameter)
    return [
        {"params": decayed, "weight_decay": config.weight_decay},
        {"params": plain, "weight_decay": 0.0},
    ]


@torch.no_grad()
def evaluate(model, loader, world):
    model.eval()
    right = torch.zeros(len(SHAPES), len(SHAPES))
    for images, labels in loader:
        for label, guess in zip(labels, model(images).argmax(1)):
            right[label, guess] += 1
    model.train()
    return mean_of_all(right.diag().sum() / right.sum(), world).item()


class Trainer:
    def __init__(self, config, rank, world):
        self.config, self.rank, self.world = config, rank, world
        self.train_loader, self.test_loader = loaders(config, rank, world)
        self.network = Network(config)
        self.model = DistributedDataParallel(self.network) if world > 1 else self.network
        self.optimizer = torch.optim.AdamW(groups(self.network, config), lr=config.lr)
        steps = config.epochs * len(self.train_loader) // config.accumulate
        self.scheduler = schedule(self.optimizer, config, steps)
        self.scaler = torch.amp.GradScaler("cpu", enabled=config.amp)
        self.average = Average(self.network, config.ema)
        self.history, self.epoch, self.step = [], 0, 0
        self.path = config.folder / "last.pt"
        if config.resume and self.path.exists():
            self.resume()

    def parts(self):
        return {
            "model": self.network,
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
            "scaler": self.scaler,
        }

    def resume(self):
        state = load(self.path, **self.parts())
        self.history, self.epoch, self.step = state["history"], state["epoch"], state["step"]
        self.average.values = state["average"]

    def loss(self, images, labels):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.config.amp):
            scores = self.model(images)
        return F.cross_entropy(scores.float(), labels, label_smoothing=0.1)

    def batches(self):
        """Each batch, and whether the optimizer steps after it."""
        for number, batch in enumerate(self.train_loader, 1):
            yield batch, number % self.config.accumulate == 0

    def one_epoch(self):
        total = torch.zeros(())
        for (images, labels), steps in self.batches():
            alone = nullcontext() if steps or self.world == 1 else self.model.no_sync()
            with alone:
                loss = self.loss(images, labels)
                self.scaler.scale(loss / self.config.accumulate).backward()
            total += loss.detach()
            if steps:
                self.update()
        return mean_of_all(total / len(self.train_loader), self.world).item()

    def update(self):
        self.scaler.unscale_(self.optimizer)
        norm = torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.config.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.scheduler.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.average.update(self.network)
        self.step += 1
        log.info(
            "step %d norm %.9g lr %.9g", self.step, norm.item(), self.scheduler.get_last_lr()[0]
        )

    def run(self):
        while self.epoch < self.config.epochs:
            sampler = self.train_loader.sampler
            if hasattr(sampler, "set_epoch"):
                sampler.set_epoch(self.epoch)
            loss = self.one_epoch()
            accuracy = evaluate(self.network, self.test_loader, self.world)
            self.epoch += 1
            self.history.append({"epoch": self.epoch, "loss": loss, "accuracy": accuracy})
            if self.rank == 0:
                self.report()

    def report(self):
        print(json.dumps(self.history[-1]), flush=True)
        (self.config.folder / "history.json").write_text(json.dumps(self.history))
        save(
            self.path,
            **self.parts(),
            average=self.average.values,
            history=self.history,
            epoch=self.epoch,
            step=self.step,
        )


def main(config):
    logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
    random.seed(config.seed)
    torch.manual_seed(config.seed)
    config.save()
    with together() as (rank, world):
        trainer = Trainer(config, rank, world)
        trainer.run()
        total = sum(p.detach().double().sum().item() for p in trainer.network.parameters())
        print(
            f"rank {rank} of {world}: {trainer.step} steps, parameters sum to {total!r}", flush=True
        )
