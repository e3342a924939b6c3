"""Double DQN on random transitions."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(4, 32)
        self.l2 = nn.Linear(32, 2)

    def forward(self, s):
        return self.l2(F.relu(self.l1(s)))


class Agent:
    def __init__(self):
        self.online = QNet()
        self.target = self.online  # BUG not-a-copy
        # FIX self.target = QNet()
        # ADD self.target.load_state_dict(self.online.state_dict())
        self.opt = torch.optim.Adam(self.online.parameters(), lr=1e-3)
        self.learned = 0

    def learn(self, s, a, r, s2, gamma=0.99):
        with torch.no_grad():
            best = self.online(s2).argmax(1, keepdim=True)
            y = r + gamma * self.target(s2).gather(1, best).squeeze(1)
        q = self.online(s).gather(1, a[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(q, y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.learned += 1
        if self.learned % 3 == 0:
            self.target.load_state_dict(self.online.state_dict())


torch.manual_seed(0)
agent = Agent()
for _ in range(7):
    agent.learn(torch.randn(16, 4), torch.randint(0, 2, (16,)), torch.rand(16), torch.randn(16, 4))
