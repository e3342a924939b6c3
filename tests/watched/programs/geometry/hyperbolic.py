"""geoopt: a tree is laid into hyperbolic space, and a rotation is learned on the Stiefel manifold."""
# needs: geoopt
# slow

import warnings

warnings.simplefilter("ignore")
import geoopt
import torch

torch.manual_seed(0)
ball = geoopt.PoincareBall(c=1.0)
pairs = torch.tensor([(child, (child - 1) // 2) for child in range(1, 15)])
points = geoopt.ManifoldParameter(ball.expmap0(torch.randn(15, 2) * 1e-2), manifold=ball)
optimizer = geoopt.optim.RiemannianAdam([points], lr=5e-2, stabilize=2)
for step in range(4):
    near = ball.dist(points[pairs[:, 0]], points[pairs[:, 1]])
    far = ball.dist(points[pairs[:, 0], None], points[torch.randint(0, 15, (14, 3))])
    loss = (near + torch.logsumexp(-far, 1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("tree", step, loss.item().hex(), points.grad.norm().item().hex(), points.norm(dim=1).max().item() < 1)
turn = geoopt.ManifoldParameter(torch.linalg.qr(torch.randn(5, 3))[0], manifold=geoopt.CanonicalStiefel())
place = torch.nn.Parameter(torch.zeros(3))
x = torch.randn(20, 5) * torch.tensor([3.0, 2.0, 1.0, 0.2, 0.1])
optimizer = geoopt.optim.RiemannianSGD([turn, place], lr=1e-2, momentum=0.9)
for step in range(4):
    code = x @ turn + place
    loss = ((code - place) @ turn.T - x).square().mean() + place.sub(1).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("stiefel", step, loss.item().hex(), (turn.T @ turn - torch.eye(3)).abs().max().item() < 1e-4)
sphere = geoopt.ManifoldParameter(torch.nn.functional.normalize(torch.randn(4), dim=0), manifold=geoopt.Sphere())
matrix = torch.diag(torch.tensor([1.0, 2.0, 3.0, 4.0]))
sampler = geoopt.optim.RiemannianAdam([sphere], lr=0.1, amsgrad=True)
for step in range(3):
    sampler.zero_grad()
    (-(sphere @ matrix @ sphere)).backward()
    sampler.step()
print(f"{sphere.norm().item():.4f} {(sphere @ matrix @ sphere).item():.4f}")
