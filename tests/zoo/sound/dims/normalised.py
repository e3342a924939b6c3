"""Softmax and means over dims that look wrong and are meant: pooling, clusters, experts, maps."""

from __future__ import annotations

from typing import Any


def fitted(torch: Any, parameters: Any, loss_of: Any) -> None:
    optimizer = torch.optim.Adam([*parameters], lr=0.01)
    for _ in range(4):
        optimizer.zero_grad()
        loss_of().backward()
        optimizer.step()


def bag_of_instances(torch: Any) -> None:
    """Attention over the instances of a bag, with several heads."""
    nn = torch.nn
    torch.manual_seed(0)
    embed, scores, head = nn.Linear(6, 8), nn.Linear(8, 3), nn.Linear(24, 2)
    bag = torch.randn(11, 6)

    def loss() -> Any:
        h = torch.tanh(embed(bag))
        weights = torch.softmax(scores(h), dim=0)
        return nn.functional.cross_entropy(
            head((weights.t() @ h).flatten()[None]), torch.tensor([1])
        )

    fitted(torch, [*embed.parameters(), *scores.parameters(), *head.parameters()], loss)


def weighted_sum_of_nodes(torch: Any) -> None:
    nn = torch.nn
    torch.manual_seed(0)
    embed, gate, head = nn.Linear(6, 8), nn.Linear(6, 8), nn.Linear(8, 1)
    nodes = torch.randn(9, 6)

    def loss() -> Any:
        weights = gate(nodes).softmax(0)
        return (head((weights * embed(nodes)).sum(0)) - 1).pow(2).mean()

    fitted(torch, [*embed.parameters(), *gate.parameters(), *head.parameters()], loss)


def nodes_pooled_into_clusters(torch: Any) -> None:
    """DiffPool: assignments add up over the clusters, and are summed over the nodes."""
    nn = torch.nn
    torch.manual_seed(0)
    embed, assign, head = nn.Linear(6, 8), nn.Linear(6, 4), nn.Linear(8, 2)
    nodes = torch.randn(3, 12, 6)
    labels = torch.tensor([0, 1, 0])

    def loss() -> Any:
        s = assign(nodes).softmax(dim=-1)
        pooled = s.transpose(1, 2) @ embed(nodes)
        return nn.functional.cross_entropy(head(pooled.tanh().mean(dim=1)), labels)

    fitted(torch, [*embed.parameters(), *assign.parameters(), *head.parameters()], loss)


def slots_compete(torch: Any) -> None:
    """Slot attention: over the slots first, then a mean over the inputs."""
    nn = torch.nn
    torch.manual_seed(0)
    q, k, v = (nn.Linear(8, 8) for _ in range(3))
    start = nn.Parameter(torch.randn(1, 3, 8))
    inputs = torch.randn(2, 7, 8)

    def loss() -> Any:
        dots = q(start.expand(2, -1, -1)) @ k(inputs).transpose(1, 2)
        attention = dots.softmax(dim=1) + 1e-8
        attention = attention / attention.sum(dim=-1, keepdim=True)
        return (attention @ v(inputs)).pow(2).mean()

    fitted(torch, [start, *q.parameters(), *k.parameters(), *v.parameters()], loss)


def attention_both_ways(torch: Any) -> None:
    """As in QANet: context to query, and query to context, from the same scores."""
    nn = torch.nn
    torch.manual_seed(0)
    left, right = nn.Linear(8, 8), nn.Linear(8, 8)
    context, query = torch.randn(2, 6, 8), torch.randn(2, 4, 8)

    def loss() -> Any:
        c, q = left(context), right(query)
        scores = c @ q.transpose(1, 2)
        to_query, to_context = scores.softmax(dim=2), scores.softmax(dim=1)
        a = to_query @ q
        b = to_query @ to_context.transpose(1, 2) @ c
        return (a * b).pow(2).mean()

    fitted(torch, [*left.parameters(), *right.parameters()], loss)


def linear_attention(torch: Any) -> None:
    nn = torch.nn
    torch.manual_seed(0)
    q, k, v = (nn.Linear(8, 8) for _ in range(3))
    x = torch.randn(2, 7, 8)

    def loss() -> Any:
        context = k(x).softmax(dim=1).transpose(1, 2) @ v(x)
        return (q(x).softmax(dim=-1) @ context).pow(2).mean()

    fitted(torch, [*q.parameters(), *k.parameters(), *v.parameters()], loss)


def several_heads(torch: Any) -> None:
    nn = torch.nn
    torch.manual_seed(0)
    qkv, out = nn.Linear(8, 24), nn.Linear(8, 8)
    x = torch.randn(2, 5, 8)

    def loss() -> Any:
        q, k, v = (each.view(2, 5, 2, 4).transpose(1, 2) for each in qkv(x).chunk(3, dim=-1))
        weights = (q @ k.transpose(-2, -1) / 2).softmax(dim=-1)
        mixed = nn.functional.dropout(weights, 0.1) @ v
        return out(mixed.transpose(1, 2).reshape(2, 5, 8)).pow(2).mean()

    fitted(torch, [*qkv.parameters(), *out.parameters()], loss)


def experts_choose(torch: Any) -> None:
    """A soft mixture: dispatched over the tokens, combined over the experts."""
    nn = torch.nn
    torch.manual_seed(0)
    router, experts, head = nn.Linear(8, 4), nn.Linear(8, 8), nn.Linear(8, 3)
    tokens, labels = torch.randn(10, 8), torch.randint(0, 3, (10,))

    def loss() -> Any:
        logits = router(tokens)
        given = logits.softmax(dim=0).t() @ tokens
        mixed = logits.softmax(dim=1) @ torch.relu(experts(given))
        return nn.functional.cross_entropy(head(mixed), labels)

    fitted(torch, [*router.parameters(), *experts.parameters(), *head.parameters()], loss)


def maps_of_key_points(torch: Any) -> None:
    """Softmax over the pixels of each map, and the mean place of it."""
    nn = torch.nn
    torch.manual_seed(0)
    conv = nn.Conv2d(1, 3, 3, padding=1)
    images, places = torch.randn(4, 1, 6, 6), torch.rand(4, 3)
    x = torch.linspace(0, 1, 36)

    def loss() -> Any:
        maps = conv(images).flatten(2).softmax(dim=-1)
        return nn.functional.mse_loss((maps * x).sum(dim=-1), places)

    fitted(torch, conv.parameters(), loss)


def listwise_ranking(torch: Any) -> None:
    nn = torch.nn
    torch.manual_seed(0)
    score = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))
    documents, relevance = torch.randn(4, 6, 5), torch.rand(4, 6)

    def loss() -> Any:
        logs = score(documents).squeeze(-1).log_softmax(dim=1)
        return -(relevance.softmax(dim=1) * logs).sum(dim=1).mean()

    fitted(torch, score.parameters(), loss)


def fields_squeezed_and_excited(torch: Any) -> None:
    """A weight for each field of as many embeddings as each has numbers."""
    nn = torch.nn
    torch.manual_seed(0)
    embed, squeeze, head = nn.Embedding(20, 6), nn.Linear(6, 6), nn.Linear(36, 1)
    ids = torch.randint(0, 20, (8, 6))

    def loss() -> Any:
        fields = embed(ids)
        weights = torch.sigmoid(squeeze(fields.mean(dim=2)))
        return head((fields * weights.unsqueeze(-1)).flatten(1)).pow(2).mean()

    fitted(torch, [*embed.parameters(), *squeeze.parameters(), *head.parameters()], loss)


def pooled_over_time(torch: Any) -> None:
    """As many steps as channels, of a convolution: what is left are the channels."""
    nn = torch.nn
    torch.manual_seed(0)
    conv, words = nn.Conv1d(3, 7, 3, padding=1), nn.Embedding(20, 7)
    head, other = nn.Linear(7, 2), nn.Linear(7, 2)
    x, ids, labels = torch.randn(5, 3, 7), torch.randint(0, 20, (5, 7)), torch.randint(0, 2, (5,))

    def loss() -> Any:
        logits = head(conv(x).relu().mean(dim=2)) + other(words(ids).mean(dim=1))
        return nn.functional.cross_entropy(logits, labels)

    parameters = [each.parameters() for each in (conv, words, head, other)]
    fitted(torch, [one for each in parameters for one in each], loss)


def contrasted_both_ways(torch: Any) -> None:
    """Rows and columns of the same similarities."""
    nn = torch.nn
    torch.manual_seed(0)
    left, right = nn.Linear(6, 4), nn.Linear(5, 4)
    a, b = torch.randn(8, 6), torch.randn(8, 5)

    def loss() -> Any:
        scores = nn.functional.normalize(left(a), dim=1) @ nn.functional.normalize(right(b), dim=1).t()
        return -(scores.log_softmax(dim=0).diag() + scores.log_softmax(dim=1).diag()).mean()

    fitted(torch, [*left.parameters(), *right.parameters()], loss)


def each_pixel_is_classified(torch: Any) -> None:
    nn = torch.nn
    torch.manual_seed(0)
    conv = nn.Conv2d(3, 4, 3, padding=1)
    images, labels = torch.randn(4, 3, 4, 4), torch.randint(0, 4, (4, 4, 4))
    one_hot = nn.functional.one_hot(labels, 4).permute(0, 3, 1, 2).float()

    def loss() -> Any:
        probs = conv(images).softmax(dim=1)
        overlap = (probs * one_hot).sum(dim=(2, 3))
        return 1 - (2 * overlap / (probs.sum(dim=(2, 3)) + one_hot.sum(dim=(2, 3)))).mean()

    fitted(torch, conv.parameters(), loss)


def each_word_is_tagged(torch: Any) -> None:
    nn = torch.nn
    torch.manual_seed(0)
    words, rnn, head = nn.Embedding(20, 6), nn.GRU(6, 6, batch_first=True), nn.Linear(6, 6)
    ids, tags = torch.randint(0, 20, (3, 6)), torch.randint(0, 6, (3, 6))

    def loss() -> Any:
        logs = head(rnn(words(ids))[0]).log_softmax(dim=2)
        return nn.functional.nll_loss(logs.transpose(1, 2), tags)

    fitted(torch, [*words.parameters(), *rnn.parameters(), *head.parameters()], loss)
