"""torchrl: DQN and SAC losses fed from a replay buffer, and target networks that follow slowly."""
# needs: torchrl tensordict
# slow

import warnings

warnings.simplefilter("ignore")
import torch
from tensordict import TensorDict
from tensordict.nn import NormalParamExtractor, TensorDictModule
from torchrl import torchrl_logger
from torchrl.data import LazyTensorStorage, OneHot, ReplayBuffer, TensorDictReplayBuffer
from torchrl.data.replay_buffers.samplers import SamplerWithoutReplacement
from torchrl.modules import MLP, ProbabilisticActor, QValueActor, TanhNormal, ValueOperator
from torchrl.objectives import DQNLoss, SACLoss, SoftUpdate, ValueEstimators

torchrl_logger.setLevel("ERROR")
torch.manual_seed(0)


def moves(action):
    done = torch.rand(32, 1) > 0.8
    return TensorDict(
        {"observation": torch.randn(32, 3), "action": action, "next": {"observation": torch.randn(32, 3), "reward": torch.randn(32, 1), "done": done, "terminated": done.clone()}}, batch_size=[32]
    )


actor = QValueActor(MLP(in_features=3, out_features=2, num_cells=[8], activation_class=torch.nn.ELU), in_keys=["observation"], spec=OneHot(2))
loss_of = DQNLoss(actor, action_space="one-hot", double_dqn=True, delay_value=True)
loss_of.make_value_estimator(ValueEstimators.TD0, gamma=0.9)
follow = SoftUpdate(loss_of, eps=0.9)
buffer = ReplayBuffer(storage=LazyTensorStorage(64), sampler=SamplerWithoutReplacement(), batch_size=8)
buffer.extend(moves(torch.nn.functional.one_hot(torch.randint(0, 2, (32,)), 2)))
optimizer = torch.optim.Adam(loss_of.parameters(), lr=1e-2)
for step in range(3):
    loss = loss_of(buffer.sample())["loss"]
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    follow.step()
    print("dqn", step, loss.item().hex())
net = TensorDictModule(torch.nn.Sequential(MLP(in_features=3, out_features=4, num_cells=[8]), NormalParamExtractor()), in_keys=["observation"], out_keys=["loc", "scale"])
policy = ProbabilisticActor(net, in_keys=["loc", "scale"], distribution_class=TanhNormal, return_log_prob=True)


class Joint(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = MLP(in_features=5, out_features=1, num_cells=[8])

    def forward(self, observation, action):
        return self.net(torch.cat([observation, action], -1))


loss_of = SACLoss(policy, ValueOperator(Joint(), in_keys=["observation", "action"]), num_qvalue_nets=2, target_entropy=-2.0)
loss_of.make_value_estimator(gamma=0.95)
follow = SoftUpdate(loss_of, tau=0.05)
buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(64), batch_size=8)
buffer.extend(moves(torch.rand(32, 2) * 1.8 - 0.9))
optimizer = torch.optim.AdamW(loss_of.parameters(), lr=3e-3)
for step in range(3):
    losses = loss_of(buffer.sample())
    optimizer.zero_grad()
    (losses["loss_actor"] + losses["loss_qvalue"] + losses["loss_alpha"]).backward()
    optimizer.step()
    follow.step()
    print("sac", step, *(losses[key].item().hex() for key in ("loss_actor", "loss_qvalue", "loss_alpha", "alpha")))
