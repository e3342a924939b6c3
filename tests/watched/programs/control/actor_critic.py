"""stable-baselines3: PPO and A2C on an environment written here."""
# needs: stable_baselines3 gymnasium
# slow

import warnings

warnings.simplefilter("ignore")
import gymnasium as gym
import numpy as np
from stable_baselines3 import A2C, PPO


class Line(gym.Env):
    observation_space = gym.spaces.Box(-10, 10, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.time = np.float32(0.5), 0
        return self.look(), {}

    def look(self):
        return np.array([self.at, self.time / 20], np.float32)

    def step(self, action):
        self.at, self.time = np.float32(self.at + (0.1 if action else -0.1)), self.time + 1
        return self.look(), -abs(float(self.at)), False, self.time >= 20, {}


for kind, options in ((PPO, {"n_steps": 32, "batch_size": 16, "n_epochs": 2}), (A2C, {"n_steps": 8})):
    model = kind("MlpPolicy", Line(), seed=0, device="cpu", policy_kwargs={"net_arch": [16]}, **options)
    model.learn(96)
    print(kind.__name__, *(p.sum().item().hex() for p in model.policy.parameters()))
