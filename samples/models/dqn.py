"""Deep Q-learning on a small grid: a replay memory, a target network, and a path to the goal."""

import random
import sys
from collections import deque

import torch
import torch.nn.functional as F
from torch import nn

EPISODES = int(sys.argv[1]) if len(sys.argv) > 1 else 120
SIZE, GOAL, MOVES = 4, (3, 3), [(-1, 0), (1, 0), (0, -1), (0, 1)]
PITS = {(1, 1), (2, 3)}


def observed(place):
    return torch.eye(SIZE * SIZE)[place[0] * SIZE + place[1]]


def moved(place, move):
    row, column = (min(max(at + by, 0), SIZE - 1) for at, by in zip(place, MOVES[move]))
    if (row, column) in PITS:
        return (row, column), -1.0, True
    return (row, column), (1.0 if (row, column) == GOAL else -0.05), (row, column) == GOAL


torch.manual_seed(0)
random.seed(0)
online = nn.Sequential(nn.Linear(SIZE * SIZE, 64), nn.ReLU(), nn.Linear(64, 4))
target = nn.Sequential(nn.Linear(SIZE * SIZE, 64), nn.ReLU(), nn.Linear(64, 4))
target.load_state_dict(online.state_dict())
optimizer = torch.optim.RMSprop(online.parameters(), lr=1e-3)
memory = deque(maxlen=2000)

for episode in range(EPISODES):
    place, over, turns, loss = (0, 0), False, 0, torch.zeros(())
    while not over and turns < 30:
        with torch.no_grad():
            move = online(observed(place)).argmax().item()
        if random.random() < max(0.1, 1 - episode / 80):
            move = random.randrange(4)
        following, reward, over = moved(place, move)
        numbers = torch.tensor(move), torch.tensor(reward), torch.tensor(float(over))
        memory.append((observed(place), *numbers[:2], observed(following), numbers[2]))
        place, turns = following, turns + 1
    for _ in range(turns if len(memory) >= 32 else 0):
        batch = random.sample(memory, 32)
        seen, moves, rewards, then, ended = map(torch.stack, zip(*batch))
        with torch.no_grad():
            best = rewards + 0.95 * (1 - ended) * target(then).max(dim=1).values
        loss = F.smooth_l1_loss(online(seen).gather(1, moves.unsqueeze(1)).squeeze(1), best)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(online.parameters(), 1.0)
        optimizer.step()
    if episode % 10 == 0:
        target.load_state_dict(online.state_dict())
        print(f"episode {episode:3d}  turns {turns:2d}  loss {loss.item():.5f}")
