import torch
import torch.nn as nn

torch.manual_seed(2)

lstm = nn.GRU(input_size=4, hidden_size=8, batch_first=True)
readout = nn.Linear(8, 4)
params = [*lstm.parameters(), *readout.parameters()]
opt = torch.optim.Adam(params, lr=1e-2)


def batches():
    for k in range(4):
        seq = torch.randn(3, 6, 4)
        observed = (torch.rand(3, 5, 1) > 0.4).float()
        if k == 2:
            observed[1] = 0.0
        yield seq, observed


def masked_mse(pred, target, mask):
    err = (pred - target) ** 2 * mask
    per_sequence = err.sum(dim=(1, 2)) / mask.sum(dim=(1, 2))  # BUG non-finite
    # FIX per_sequence = err.sum(dim=(1, 2)) / mask.sum(dim=(1, 2)).clamp_min(1.0)
    return per_sequence.mean()


for seq, observed in batches():
    states, _ = lstm(seq[:, :-1])
    loss = masked_mse(readout(states), seq[:, 1:], observed)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
