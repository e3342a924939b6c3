"""PyG: a message passing of its own, an attention that is a transformer, and a deep graph infomax without labels."""
# needs: torch_geometric
# slow

import warnings

warnings.simplefilter("ignore")
import torch
from torch_geometric.nn import DeepGraphInfomax, GPSConv, GraphConv, MessagePassing
from torch_geometric.transforms import AddLaplacianEigenvectorPE
from torch_geometric.data import Data
from torch_geometric.utils import add_self_loops, degree, softmax, to_undirected

torch.manual_seed(1)


class Weighed(MessagePassing):
    def __init__(self, size):
        super().__init__(aggr="add", node_dim=0)
        self.value, self.score = torch.nn.Linear(size, size, bias=False), torch.nn.Linear(2 * size, 1)

    def forward(self, x, edges):
        edges, _ = add_self_loops(edges, num_nodes=len(x))
        root = degree(edges[1], len(x)).rsqrt()
        return self.propagate(edges, x=self.value(x), scale=root[edges[0]] * root[edges[1]])

    def message(self, x_i, x_j, scale, index):
        weight = softmax(self.score(torch.cat([x_i, x_j], -1)).tanh(), index)
        return x_j * weight * scale.view(-1, 1)


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Weighed(8)
        self.second = GPSConv(8, GraphConv(8, 8), heads=2, dropout=0.1, norm="layer_norm")
        self.act = torch.nn.PReLU(8)

    def forward(self, x, edges):
        return self.act(self.second(self.first(x, edges), edges))


edges = to_undirected(torch.randint(0, 15, (2, 30)))
data = AddLaplacianEigenvectorPE(2, attr_name=None, is_undirected=True)(Data(x=torch.randn(15, 6), edge_index=edges, num_nodes=15))
x = torch.cat([data.x[:, :6], data.x[:, 6:].abs()], 1)
model = DeepGraphInfomax(8, Encoder(), summary=lambda z, *_: z.mean(0).sigmoid(), corruption=lambda x, edges: (x[torch.randperm(len(x))], edges))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(3):
    positive, negative, summary = model(x, edges)
    loss = model.loss(positive, negative, summary)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, f"{loss.item():.4f}", f"{model.encoder.first.score.weight.grad.norm().item():.3f}")
