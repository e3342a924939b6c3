"""stable-baselines3: SAC and DQN with replay, target networks and delayed updates."""
# needs: stable_baselines3 gymnasium
# slow

import warnings

warnings.simplefilter("ignore")
from stable_baselines3 import DQN, SAC

shared = {"seed": 0, "device": "cpu", "learning_starts": 20, "batch_size": 8, "buffer_size": 200}
sac = SAC("MlpPolicy", "Pendulum-v1", policy_kwargs={"net_arch": [8]}, **shared)
sac.learn(26)
print(*(p.sum().item().hex() for p in sac.policy.parameters()))
dqn = DQN("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": [8]}, train_freq=2, target_update_interval=4, **shared)
dqn.learn(30)
print(*(p.sum().item().hex() for p in dqn.policy.parameters()))
