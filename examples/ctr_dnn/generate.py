"""Makes up clicks in the likeness of Criteo's: 13 dense values, 26 slots of ids, and a label that depends on them.

    python generate.py [--data data] [--samples 200000] [--test_samples 40000] [--rows 1000001] [--seed 1]

writes data/train/part-* and data/test/part-* as text for fluid.DatasetFactory, some 100,000 lines a second. A slot has from 10 to
200,000 tokens. As with real ones, few are frequent and most are rare (Zipf); a token's id is a hash of it. A hidden model says how
probable a click is: each token pulls one way, pairs of some slots pull together, and dense values add to that. A quarter of all
samples are clicks. Who knows the hidden model reaches an AUC of 0.88; a constant one has 0.5.
"""

import argparse
import json
import os
import shutil
import tempfile

import multislot
import numpy as np

DENSE, SLOTS = 13, 26
CHUNK = 10000
TOKENS = np.round(10 * 20000 ** (np.arange(SLOTS) / (SLOTS - 1))).astype("int64")  # of each slot
PAIRS = [(2, 5), (3, 8), (6, 10)]  # slots whose tokens pull together
ZIPF = 1.1


class Hidden:
    """What decides about a click; the same for all samples of all seeds."""

    def __init__(self):
        rng = np.random.RandomState(7)
        self.first = np.concatenate([[0], np.cumsum(TOKENS)[:-1]])  # of a slot's tokens among all
        self.pull = rng.normal(0, 0.36, TOKENS.sum()).astype("float32")
        self.side = rng.normal(0, 0.8, TOKENS.sum()).astype("float32")
        self.weight = rng.normal(0, 0.25, DENSE).astype("float32")

    def probability(self, dense, tokens):
        """Of a click, for each sample."""
        at = self.first + tokens
        odds = self.pull[at].sum(axis=1) + (dense - 1) @ self.weight - 1.6
        for a, b in PAIRS:
            odds += self.side[at[:, a]] * self.side[at[:, b]]
        return 1 / (1 + np.exp(-odds))


def draw(rng, count, hidden):
    """Dense values, tokens by slot, and labels of so many samples."""
    # The inverse of the distribution: token k has a share of about (k + 1) ** -ZIPF.
    most = (TOKENS + 1.0) ** (1 - ZIPF) - 1
    tokens = ((rng.random_sample((count, SLOTS)) * most + 1) ** (1 / (1 - ZIPF)) - 1).astype("int64")
    tokens = np.minimum(tokens, TOKENS - 1)
    dense = np.log1p(np.floor(np.exp(rng.normal(0.3, 1.2, (count, DENSE))))).astype("float32")  # of counts
    label = rng.random_sample(count) < hidden.probability(dense, tokens)
    return dense, tokens, label.astype("int64")


def ids_of(tokens, rows):
    """A hash of slot and token in [1, rows)."""
    mixed = (tokens * SLOTS + np.arange(SLOTS) + 1).astype("uint64")
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return 1 + ((mixed ^ (mixed >> np.uint64(31))) % np.uint64(rows - 1)).astype("int64")


def batches(count, rows, seed):
    """So many samples by the thousand, as arrays: dense values, ids, labels."""
    rng, hidden = np.random.RandomState(seed), Hidden()
    for start in range(0, count, 1000):
        dense, tokens, label = draw(rng, min(1000, count - start), hidden)
        yield dense, ids_of(tokens, rows), label


def write_clicks(path, count, seed, options):
    """A file of so many lines."""
    rng, hidden = np.random.RandomState(seed), Hidden()
    with open(path, "wb") as file:
        for start in range(0, count, CHUNK):
            dense, tokens, label = draw(rng, min(CHUNK, count - start), hidden)
            lines = multislot.Lines()
            lines.floats(dense)
            ids = ids_of(tokens, options.rows)
            for slot in range(SLOTS):
                lines.ids(ids[:, slot : slot + 1])
            lines.ids(label[:, None])
            file.write(lines.text())


def told(made, names):
    """Options, as a command has them; those that it has not are those of another example."""
    return " ".join("--%s=%s" % (name, made[name]) for name in names if name in made) or "other options"


def make(options, write=write_clicks, facts=("rows",), tells=True):
    """Fills the folder options.data, unless it is there: train/part-* and test/part-*, each by write(path, count, seed, options).

    Processes of a job on one machine may do it side by side: all make the same, and the first one that is through gives its folder.
    `facts` are the options that the samples depend on.
    """
    wanted = {name: getattr(options, name) for name in ("samples", "test_samples", "parts", "seed", *facts)}
    note = os.path.join(options.data, "made_up.json")
    if not os.path.exists(options.data):
        if tells:
            print("making up %d samples in %s ..." % (options.samples + options.test_samples, options.data), flush=True)
        around = os.path.dirname(os.path.abspath(options.data))
        os.makedirs(around, exist_ok=True)
        folder = tempfile.mkdtemp(prefix="." + os.path.basename(options.data) + "-", dir=around)
        for number, (name, count) in enumerate((("train", options.samples), ("test", options.test_samples))):
            os.mkdir(os.path.join(folder, name))
            edges = np.linspace(0, count, options.parts + 1).astype(int)
            for part, size in enumerate(np.diff(edges).tolist()):
                write(os.path.join(folder, name, "part-%d" % part), size, options.seed * 1000 + number * 100 + part, options)
        with open(os.path.join(folder, "made_up.json"), "w") as file:
            json.dump(wanted, file)
        os.chmod(folder, 0o755)
        try:
            os.rename(folder, options.data)
        except OSError:  # another process was faster
            shutil.rmtree(folder)
    if os.path.exists(note):
        with open(note) as file:
            found = json.load(file)
        if found != wanted:
            other = sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
            raise SystemExit("%s was made with %s, and now %s is wanted. Remove it, or give another --data."
                             % (options.data, told(found, other), told(wanted, other)))


def add_options(parser, samples=200000, folder="data"):
    """Those that say what is made up."""
    parser.add_argument("--data", default=folder, help="folder of train/ and test/; made up unless it is there")
    parser.add_argument("--samples", type=int, default=samples, help="made-up samples for training")
    parser.add_argument("--test_samples", type=int, default=samples // 5, help="made-up samples for the test")
    parser.add_argument("--parts", type=int, default=8, help="files of each; a multiple of the number of workers and threads")
    parser.add_argument("--seed", type=int, default=1, help="of made-up samples and of first values")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--rows", type=int, default=1000001, help="ids are below that")
    make(parser.parse_args())
