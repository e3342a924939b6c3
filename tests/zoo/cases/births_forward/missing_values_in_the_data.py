"""A column has gaps that were read as NaN."""
import torch
import torch.nn as nn

torch.manual_seed(0)

ROWS = ["1.0,2.0,3.5", "0.5,,2.0", "2.0,1.0,4.0", "1.5,0.5,2.5", "0.0,1.0,1.5"]


def parse(row):
    return [float(cell) if cell else float("nan") for cell in row.split(",")]  # ALSO
    # FIX return [float(cell) if cell else 0.0 for cell in row.split(",")]


table = torch.tensor([parse(row) for row in ROWS])  # BUG non-finite
x, y = table[:, :2], table[:, 2:]
model = nn.Linear(2, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(3):
    loss = nn.functional.mse_loss(model(x), y)  # ALSO
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, loss.item())
