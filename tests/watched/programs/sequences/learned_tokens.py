"""tokenizers and datasets: a vocabulary by byte pairs, rows that are mapped and padded, and a model of them kept in safetensors."""
# needs: tokenizers datasets safetensors
# slow

import warnings

warnings.simplefilter("ignore")
import datasets
import torch
from datasets import ClassLabel, Dataset, Features, Value
from safetensors import safe_open
from safetensors.torch import load_model, save_model
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

datasets.disable_progress_bars()
texts = [f"{who} {how} {what}." for who in ("Ana", "Bo", "Cyd") for how in ("likes", "hates") for what in ("tea", "rain", "snow")]
tokenizer = Tokenizer(models.BPE())
tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase()])
tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=300, special_tokens=["<pad>", "<cls>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
tokenizer.post_processor = processors.TemplateProcessing(single="<cls> $A", special_tokens=[("<cls>", 1)])
tokenizer.enable_padding(pad_id=0, pad_token="<pad>")
rows = Dataset.from_dict({"text": texts, "label": [int("likes" in text) for text in texts]}, features=Features({"text": Value("string"), "label": ClassLabel(names=["no", "yes"])}))
rows = rows.map(lambda part: {"ids": [each.ids for each in tokenizer.encode_batch(part["text"])]}, batched=True, batch_size=None).shuffle(seed=1)
halves = rows.train_test_split(0.25, seed=2, stratify_by_column="label")
loader = torch.utils.data.DataLoader(halves["train"].with_format("torch", columns=["ids", "label"]), batch_size=5, shuffle=True, generator=torch.Generator().manual_seed(3))


class Bag(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = torch.nn.EmbeddingBag(tokenizer.get_vocab_size(), 12, mode="mean", padding_idx=0)
        self.head = torch.nn.Bilinear(12, 12, 2)
        self.again = self.bag  # one tensor under two names

    def forward(self, ids):
        hidden = self.bag(ids)
        return self.head(hidden, self.again(ids).tanh())


torch.manual_seed(0)
model = Bag()
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
for epoch in range(2):
    for part in loader:
        loss = torch.nn.functional.cross_entropy(model(part["ids"]), part["label"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(epoch, tuple(part["ids"].shape), loss.item().hex(), model.head.weight.grad.norm().item().hex())
save_model(model, "bag.safetensors", metadata={"epochs": "2"})
fresh = Bag()
print(load_model(fresh, "bag.safetensors"))
with safe_open("bag.safetensors", "pt") as file:
    print(sorted(file.keys()), file.metadata()["epochs"], file.get_slice("head.weight")[:1, :2].shape)
valid = halves["test"].with_format("torch")
with torch.no_grad():
    print((fresh(torch.stack([row["ids"] for row in valid])).argmax(1) == torch.tensor(halves["test"]["label"])).sum().item(), tokenizer.decode(halves["test"][0]["ids"]))
