"""Stock prices by a stateful LSTM: the state is an attribute, and never detached."""

import torch
import torch.nn as nn

torch.manual_seed(0)


class StatefulLSTM(nn.Module):
    def __init__(self, n_in=1, hidden=12):
        super().__init__()
        self.hidden_size = hidden
        self.lstm = nn.LSTM(n_in, hidden, batch_first=True)
        self.fc = nn.Linear(hidden, 1)
        self.state = None

    def init_state(self, batch):
        zeros = torch.zeros(1, batch, self.hidden_size)
        self.state = (zeros, zeros.clone())

    def forward(self, x):
        out, self.state = self.lstm(x, self.state)  # BUG second-backward
        # ADD self.state = tuple(s.detach() for s in self.state)
        return self.fc(out[:, -1])


def windows(series, length=8):
    for start in range(0, series.shape[1] - length, length):
        yield series[:, start : start + length, None], series[:, start + length, None]


def main():
    t = torch.linspace(0, 12, 60)
    series = torch.stack([torch.sin(t + p) for p in (0.0, 0.7, 1.4)])
    model = StatefulLSTM()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    criterion = nn.MSELoss()
    for epoch in range(2):
        model.init_state(len(series))
        for x, y in windows(series):
            prediction = model(x)
            loss = criterion(prediction, y)
            optimizer.zero_grad()
            loss.backward()  # ALSO
            optimizer.step()
        print(epoch, loss.item())


main()
