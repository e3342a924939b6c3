"""Sparse gradients of an embedding, with SparseAdam; a sparse matrix times parameters."""

import torch

torch.manual_seed(0)
table = torch.nn.Embedding(50, 8, sparse=True)
bag = torch.nn.EmbeddingBag(30, 8, sparse=True, mode="sum")
head = torch.nn.Linear(8, 1)
sparse = torch.optim.SparseAdam([*table.parameters(), *bag.parameters()], lr=0.05)
dense = torch.optim.SGD(head.parameters(), lr=0.05)
graph = torch.sparse_coo_tensor([[0, 1, 2, 3], [1, 2, 3, 0]], [1.0, 0.5, 2.0, 1.5], (4, 4))
ids, bags, y = torch.randint(0, 50, (4,)), torch.randint(0, 30, (4, 3)), torch.randn(4, 1)
for step in range(4):
    hidden = torch.sparse.mm(graph, table(ids)) + bag(bags)
    loss = (head(hidden) - y).square().mean()
    sparse.zero_grad()
    dense.zero_grad()
    loss.backward()
    sparse.step()
    dense.step()
    grad = table.weight.grad.coalesce()
    print(step, loss.item().hex(), grad.is_sparse, grad.values().norm().item().hex())
