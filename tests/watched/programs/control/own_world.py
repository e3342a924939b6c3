"""stable-baselines3: PPO and A2C in a world of its own, with several inputs, normalized vectors and callbacks."""
# needs: stable_baselines3 gymnasium
# slow

import warnings

warnings.simplefilter("ignore")
import gymnasium
import numpy
import torch
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize


class Corridor(gymnasium.Env):
    observation_space = gymnasium.spaces.Dict({"place": gymnasium.spaces.Box(-5, 5, (2,), numpy.float32), "door": gymnasium.spaces.Discrete(3)})
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.time, self.door = 0.0, 0, int(self.np_random.integers(3))
        return self.seen(), {}

    def seen(self):
        return {"place": numpy.array([self.at, self.time / 8], numpy.float32), "door": self.door}

    def step(self, action):
        self.at, self.time = float(numpy.clip(self.at + action - 1, -5, 5)), self.time + 1
        return self.seen(), -abs(self.at - self.door), self.at == self.door, self.time >= 8, {}


class Joined(BaseFeaturesExtractor):
    def __init__(self, space):
        super().__init__(space, 6)
        self.net = torch.nn.Sequential(torch.nn.Linear(5, 6), torch.nn.Tanh())

    def forward(self, seen):
        return self.net(torch.cat([seen["place"], seen["door"].flatten(1)], 1))


class Told(BaseCallback):
    def _on_step(self):
        return True

    def _on_rollout_end(self):
        print("rollout", self.num_timesteps, float(self.locals["values"].sum()).hex())


check_env(Corridor())
world = VecNormalize(DummyVecEnv([Corridor, Corridor]), norm_obs_keys=["place"])
world.seed(4)
model = PPO("MultiInputPolicy", world, n_steps=8, batch_size=8, n_epochs=2, seed=4, device="cpu", target_kl=0.5, learning_rate=lambda left: 1e-2 * left, policy_kwargs={"features_extractor_class": Joined, "net_arch": {"pi": [6], "vf": [6]}})
model.learn(32, callback=[Told(), EvalCallback(VecNormalize(DummyVecEnv([Corridor]), norm_obs_keys=["place"]), eval_freq=8, n_eval_episodes=1, verbose=0)])
print(*(p.sum().item().hex() for p in model.policy.parameters()))
model = A2C("MultiInputPolicy", Corridor(), n_steps=4, seed=5, device="cpu", use_rms_prop=False, gae_lambda=0.9, normalize_advantage=True, ent_coef=0.01)
model.learn(12, callback=Told())
model.save("a2c")
again = A2C.load("a2c", env=Corridor(), device="cpu").learn(8, reset_num_timesteps=False)
print(again.num_timesteps, sum(p.norm() for p in again.policy.parameters()).item().hex())
