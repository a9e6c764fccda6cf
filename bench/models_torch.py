"""The works in PyTorch, as its users write them: one gather for all slots, fused optimizers."""

import torch
import works
from torch import nn
from torch.nn import functional


class Line(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(13, 1)

    def forward(self, x, y):
        return functional.mse_loss(self.fc(x), y)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(784, 200), nn.Tanh(), nn.Linear(200, 200), nn.Tanh(), nn.Linear(200, 10)
        )

    def forward(self, img, label):
        return functional.cross_entropy(self.net(img), label)


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2), nn.BatchNorm2d(20),
            nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(800, 10),
        )

    def forward(self, img, label):
        return functional.cross_entropy(self.net(img), label)


class Words(nn.Module):
    def __init__(self, sparse):
        super().__init__()
        self.table = nn.Embedding(works.DICT, works.EMB, sparse=sparse)
        self.hidden = nn.Linear(4 * works.EMB, works.HIDDEN)
        self.out = nn.Linear(works.HIDDEN, works.DICT)

    def forward(self, ids, label):
        hidden = torch.sigmoid(self.hidden(self.table(ids).flatten(1)))
        return functional.cross_entropy(self.out(hidden), label)


class Clicks(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(works.ROWS, works.WIDTH, sparse=True)
        sizes = [works.SLOTS * works.WIDTH + works.DENSE] + 3 * [works.FC]
        parts = [part for a, b in zip(sizes, sizes[1:]) for part in (nn.Linear(a, b), nn.ReLU())]
        self.net = nn.Sequential(*parts, nn.Linear(works.FC, 2))

    def forward(self, ids, dense, label):
        return functional.cross_entropy(self.net(torch.cat([self.table(ids).flatten(1), dense], 1)), label)


def tensors(batch):
    return {name: torch.from_numpy(array) for name, array in batch.items()}


def feed_plain(batch):
    return tuple(tensors(batch).values())


def feed_labelled(batch):
    t = tensors(batch)
    return t["img"], t["label"].flatten()


def feed_words(batch):
    t = tensors(batch)
    return torch.cat([t[name] for name in works.WORDS[:4]], 1), t[works.WORDS[4]].flatten()


def feed_clicks(batch):
    t = tensors(batch)
    return torch.cat([t[name] for name in works.SLOT_NAMES], 1), t["dense"], t["label"].flatten()


def sgd(model):
    """Plain SGD; the fused form where the gradient is dense."""
    sparse = [p for m in model.modules() if isinstance(m, nn.Embedding) and m.sparse for p in m.parameters()]
    known = set(map(id, sparse))
    dense = [p for p in model.parameters() if id(p) not in known]
    optimizers = [torch.optim.SGD(dense, lr=0.01, fused=True)]
    if sparse:
        optimizers.append(torch.optim.SGD(sparse, lr=0.01))
    return optimizers


def adam(model):
    return [torch.optim.Adam(model.parameters(), lr=0.001, fused=True)]


MODELS = {
    "fit_a_line": (Line, sgd, feed_plain),
    "mlp": (Mlp, adam, feed_labelled),
    "lenet": (LeNet, adam, feed_labelled),
    "word2vec": (lambda: Words(False), sgd, feed_words),
    "word2vec_sparse": (lambda: Words(True), sgd, feed_words),
    "ctr_dnn": (Clicks, sgd, feed_clicks),
}


class Step:
    """A built work: calling it runs the next batch and returns the loss. how: "eager" or "compile"."""

    def __init__(self, name, how):
        make, optimizer, feed = MODELS[name]
        torch.manual_seed(1)
        model = make()
        self.optimizers = optimizer(model)
        self.model = torch.compile(model) if how == "compile" else model
        self.feeds = [feed(batch) for batch in works.WORKS[name].data()]
        self.at = 0

    def __call__(self):
        feed = self.feeds[self.at]
        self.at = (self.at + 1) % len(self.feeds)
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss = self.model(*feed)
        loss.backward()
        for optimizer in self.optimizers:
            optimizer.step()
        return loss.item()
