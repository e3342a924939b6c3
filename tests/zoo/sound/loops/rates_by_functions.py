"""Schedules that are functions: a warm-up with a cosine, that of transformers, a search."""

import math


def train(torch, optimizer, model, schedule, steps=16):
    for _ in range(steps):
        x = torch.randn(16, 4)
        loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return loss.item()


def warm_up_and_cosine(torch):
    def factor(step):
        if step < 4:
            return step / 4
        return 0.5 * (1 + math.cos(math.pi * (step - 4) / 12))

    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    train(torch, optimizer, model, torch.optim.lr_scheduler.LambdaLR(optimizer, factor))


def that_of_transformers(torch):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 64**-0.5 * min((step + 1) ** -0.5, (step + 1) * 8**-1.5)
    )
    train(torch, optimizer, model, schedule)


def warm_up_from_a_hundredth(torch):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, 0.01 + step / 50))
    train(torch, optimizer, model, schedule)


def search_for_a_rate(torch):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-7)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 10 ** (step / 2))
    print(train(torch, optimizer, model, schedule, 17))
