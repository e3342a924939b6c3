"""PyG: attention of two kinds over edges with features, layers rewritten for many kinds of nodes, virtual nodes, jumps."""
# needs: torch_geometric
# slow

import torch
import torch_geometric
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import GATv2Conv, GraphNorm, JumpingKnowledge, SAGEConv, TransformerConv, global_add_pool, to_hetero
from torch_geometric.transforms import VirtualNode
from torch_geometric.utils import dropout_edge, to_undirected

torch_geometric.seed_everything(0)
edges = to_undirected(torch.tensor([[0, 1, 2, 3, 4, 5, 0], [1, 2, 3, 4, 5, 0, 3]]))
graph = VirtualNode()(Data(x=torch.randn(6, 4), edge_index=edges, edge_attr=torch.randn(edges.shape[1], 2), y=torch.tensor([1])))


class Attends(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = GATv2Conv(4, 4, heads=2, edge_dim=2, dropout=0.2)
        self.second = TransformerConv(8, 8, heads=2, concat=False, edge_dim=2, beta=True)
        self.norm, self.jump, self.head = GraphNorm(8), JumpingKnowledge("lstm", 8, 2), torch.nn.Linear(8, 3)

    def forward(self, graph):
        kept, which = dropout_edge(graph.edge_index, 0.2, training=self.training)
        a = self.norm(self.first(graph.x, kept, graph.edge_attr[which]).relu())
        b = self.second(a, kept, graph.edge_attr[which])
        return self.head(global_add_pool(self.jump([a, b]), None))


class Plain(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = SAGEConv((-1, -1), 8), SAGEConv((-1, -1), 2)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


model = Attends()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(3):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(graph), graph.y)
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), model.first.att.grad.norm().item().hex())
many = HeteroData()
many["user"].x, many["item"].x = torch.randn(4, 3), torch.randn(5, 2)
many["user", "likes", "item"].edge_index = torch.tensor([[0, 1, 2, 3, 3], [0, 1, 2, 3, 4]])
many["item", "liked", "user"].edge_index = torch.tensor([[0, 1, 2, 4], [0, 1, 2, 3]])
rewritten = to_hetero(Plain(), many.metadata())
with torch.no_grad():
    rewritten(many.x_dict, many.edge_index_dict)
optimizer = torch.optim.SGD(rewritten.parameters(), lr=0.1)
for step in range(3):
    out = rewritten(many.x_dict, many.edge_index_dict)
    loss = out["user"].square().mean() + out["item"].logsumexp(1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), sum(p.grad.norm() for p in rewritten.parameters()).item().hex())
