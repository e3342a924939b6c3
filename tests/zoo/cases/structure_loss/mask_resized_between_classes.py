"""Land use maps: the map of class numbers is made smaller like the picture."""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


def scene(size=30):
    classes = torch.zeros(size, size, dtype=torch.long)
    row, column = torch.randint(2, 14, (2,)).tolist()
    classes[row : row + 12, column : column + 12] = 5
    return torch.rand(1, size, size) + classes, classes


def smaller(picture, classes, size=20):
    picture = F.interpolate(picture[None], size=(size, size), mode="bilinear")[0]
    classes = F.interpolate(classes[None, None].float(), (size, size), mode="area")  # BUG truncated
    # FIX classes = F.interpolate(classes[None, None].float(), (size, size), mode="nearest")
    return picture, classes.squeeze().long()  # ALSO


net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 6, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(4):
    pairs = [smaller(*scene()) for _ in range(4)]
    pictures = torch.stack([each for each, _ in pairs])
    numbers = torch.stack([each for _, each in pairs])
    loss = F.cross_entropy(net(pictures), numbers)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
