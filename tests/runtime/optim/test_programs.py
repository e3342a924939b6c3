"""Programs with policies, latent variables, noise and two optimisers: PyTorch's losses."""

from __future__ import annotations

from typing import Any

import pytest

import gradscope.runtime as ours

pytestmark = pytest.mark.torch


def ppo(torch: Any) -> list[float]:
    """A policy with normal actions and a clipped ratio, another with classes."""
    nn, D = torch.nn, torch.distributions
    policy = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))
    classes = nn.Linear(3, 4)
    deviation = nn.Parameter(torch.zeros(2))
    weights = [*policy.parameters(), *classes.parameters(), deviation]
    optimizer = torch.optim.Adam(weights, 0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda e: 1 - e / 20)
    losses = []
    for _ in range(8):
        seen = torch.randn(32, 3)
        with torch.no_grad():
            before = D.Independent(D.Normal(policy(seen), deviation.exp()), 1)
            actions = before.sample()
            old, chosen = before.log_prob(actions), D.Categorical(logits=classes(seen)).sample()
        gain = actions.sum(-1) - (actions**2).sum(-1)
        now = D.Independent(D.Normal(policy(seen), deviation.exp()), 1)
        ratio = (now.log_prob(actions) - old).exp()
        clipped = ratio.clamp(0.8, 1.2)
        kinds = D.Categorical(logits=classes(seen))
        loss = -torch.min(ratio * gain, clipped * gain).mean() - 0.01 * now.entropy().mean()
        loss = loss - (kinds.log_prob(chosen) * gain).mean() - 0.01 * kinds.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 0.5)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


def sac(torch: Any) -> list[float]:
    """A squashed normal policy, twin critics and a temperature that is learned."""
    nn, D = torch.nn, torch.distributions
    actor, critics = nn.Linear(3, 4), [nn.Linear(5, 1) for _ in range(2)]
    log_alpha = torch.zeros(1, requires_grad=True)
    optimizers = [
        torch.optim.Adam(actor.parameters(), 3e-3),
        torch.optim.AdamW([p for c in critics for p in c.parameters()], 3e-3),
        torch.optim.Adam([log_alpha], 3e-3),
    ]
    losses = []
    for _ in range(8):
        seen = torch.randn(16, 3)
        mean, deviation = actor(seen).chunk(2, -1)
        squashed = [D.transforms.TanhTransform(cache_size=1)]
        policy = D.TransformedDistribution(D.Normal(mean, deviation.clamp(-5, 2).exp()), squashed)
        action = policy.rsample()
        log_prob = policy.log_prob(action).sum(-1, keepdim=True)
        values = [critic(torch.cat([seen, action], -1)) for critic in critics]
        actor_loss = (log_alpha.exp().detach() * log_prob - torch.min(*values)).mean()
        known = [critic(torch.cat([seen, action.detach()], -1)) for critic in critics]
        target = seen.sum(-1, keepdim=True)
        critic_loss = sum(((value - target) ** 2).mean() for value in known)
        alpha_loss = -(log_alpha * (log_prob + 2).detach()).mean()
        total = [actor_loss, critic_loss, alpha_loss]
        for optimizer in optimizers:
            optimizer.zero_grad()
        for loss in total:
            loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        losses += [loss.item() for loss in total]
    return losses


def vae(torch: Any) -> list[float]:
    nn, D = torch.nn, torch.distributions
    encoder, decoder = nn.Linear(8, 6), nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 8))
    optimizer = torch.optim.RMSprop([*encoder.parameters(), *decoder.parameters()], 1e-3)
    data = torch.rand(32, 8).round()
    losses = []
    for _ in range(8):
        mean, deviation = encoder(data).chunk(2, -1)
        latent = D.Normal(mean, nn.functional.softplus(deviation))
        likely = D.Bernoulli(logits=decoder(latent.rsample())).log_prob(data).sum(-1)
        apart = D.kl_divergence(latent, D.Normal(0.0, 1.0)).sum(-1)
        loss = (apart - likely).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def ddpm(torch: Any) -> list[float]:
    nn = torch.nn
    model = nn.Sequential(nn.Linear(3, 32), nn.SiLU(), nn.Linear(32, 2))
    average = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    )
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=10)
    kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 50), 0)
    data = torch.randn(64, 2) * 0.5 + 1
    losses = []
    for _ in range(8):
        t = torch.randint(0, 50, (64,))
        noise = torch.randn_like(data)
        share = kept[t].unsqueeze(-1)
        noisy = share.sqrt() * data + (1 - share).sqrt() * noise
        told = torch.cat([noisy, t.unsqueeze(-1) / 50], -1)
        loss = nn.functional.mse_loss(model(told), noise)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        average.update_parameters(model)
        losses += [loss.item(), nn.functional.mse_loss(average(told), noise).item()]
    return losses


def gan(torch: Any) -> list[float]:
    nn = torch.nn
    maker = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 2))
    judge = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    makers = torch.optim.Adam(maker.parameters(), 2e-3, betas=(0.5, 0.999))
    judges = torch.optim.SGD(judge.parameters(), 0.05, momentum=0.9, nesterov=True)
    wanted = nn.BCEWithLogitsLoss()
    losses = []
    for _ in range(8):
        real, made = torch.randn(32, 2) + 2, maker(torch.randn(32, 4))
        judges.zero_grad()
        loss = wanted(judge(real), torch.ones(32, 1))
        loss = loss + wanted(judge(made.detach()), torch.zeros(32, 1))
        loss.backward()
        judges.step()
        makers.zero_grad()
        fooled = wanted(judge(made), torch.ones(32, 1))
        fooled.backward()
        makers.step()
        losses += [loss.item(), fooled.item()]
    return losses


def lbfgs(torch: Any) -> list[float]:
    x = torch.linspace(-1, 1, 40, dtype=torch.float64)
    y = torch.sin(3 * x) + 0.1 * torch.randn(40, dtype=torch.float64)
    weights = torch.zeros(6, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=8, line_search_fn="strong_wolfe")

    def closure() -> Any:
        optimizer.zero_grad()
        powers = torch.stack([x**k for k in range(6)], -1)
        loss = ((powers @ weights - y) ** 2).mean() + 1e-3 * weights.abs().sum()
        loss.backward()
        return loss

    return [optimizer.step(closure).item() for _ in range(6)]


@pytest.mark.parametrize("program", [ppo, sac, vae, ddpm, gan, lbfgs])
def test_a_program_has_pytorchs_losses(program: Any) -> None:
    found = []
    for engine in (ours, pytest.importorskip("torch")):
        engine.manual_seed(0)
        found.append(program(engine))

    assert found[0] == pytest.approx(found[1], rel=1e-5, abs=1e-6)
