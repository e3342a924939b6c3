"""Fine-tuning in two phases: head first, then all; the schedule goes on."""
import torch
import torch.nn as nn

torch.manual_seed(0)
backbone = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU())
head = nn.Linear(16, 4)
criterion = nn.CrossEntropyLoss()
x = torch.randn(80, 10)
y = x[:, :4].argmax(1)


def run(optimizer, scheduler, epochs):
    for _ in range(epochs):
        for xb, yb in zip(x.split(20), y.split(20)):
            optimizer.zero_grad()
            criterion(head(backbone(xb)), yb).backward()
            optimizer.step()
        scheduler.step()


backbone.requires_grad_(False)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
run(optimizer, scheduler, 2)

backbone.requires_grad_(True)
optimizer = torch.optim.SGD([*backbone.parameters(), *head.parameters()], lr=0.05)
# ADD scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
run(optimizer, scheduler, 3)  # BUG schedule-without-effect
