"""Multi-task learning with learned weights of the tasks, kept in a plain list."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class MultiTaskLoss(nn.Module):
    def __init__(self, tasks):
        super().__init__()
        self.log_vars = [nn.Parameter(torch.zeros(())) for _ in tasks]  # BUG unregistered
        # FIX self.log_vars = nn.ParameterList([nn.Parameter(torch.zeros(())) for _ in tasks])
        self.tasks = tasks

    def forward(self, losses):
        total = 0.0
        for log_var, task in zip(self.log_vars, self.tasks):
            total = total + torch.exp(-log_var) * losses[task] + log_var
        return total


class SharedTrunk(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(9, 32), nn.ReLU())
        self.heads = nn.ModuleDict({"depth": nn.Linear(32, 1), "class": nn.Linear(32, 3)})

    def forward(self, x):
        h = self.trunk(x)
        return {name: head(h) for name, head in self.heads.items()}


class Learner:
    def __init__(self):
        self.model = SharedTrunk()
        self.criterion = MultiTaskLoss(["depth", "class"])
        everything = [*self.model.parameters(), *self.criterion.parameters()]
        self.optimizer = torch.optim.Adam(everything, lr=1e-3)

    def losses(self, x, depth, label):
        out = self.model(x)
        return {
            "depth": F.l1_loss(out["depth"].squeeze(1), depth),
            "class": F.cross_entropy(out["class"], label),
        }

    def fit(self, x, depth, label, steps=3):
        for step in range(steps):
            loss = self.criterion(self.losses(x, depth, label))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            print(step, loss.item())


x = torch.randn(30, 9)
Learner().fit(x, x[:, 0], x[:, :3].argmax(1))
