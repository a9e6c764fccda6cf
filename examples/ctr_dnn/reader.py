"""Reads Criteo's files: label, 13 counts and 26 tokens in a line, separated by tabs; any of them may be empty.

As a pipe command it turns them into text for fluid.DatasetFactory, a file at a time:

    python reader.py --rows 1000001 < day_0 > part-0
    dataset.set_pipe_command("python reader.py --rows 1000001")      # what train.py --criteo does

A count c becomes log(1 + c), 0 where it is negative or missing. A token, the empty one too, becomes a hash of itself and its slot,
the same in all processes and on all machines.
"""

import argparse
import math
import zlib

from generate import DENSE, SLOTS
from paddle.fluid.incubate.data_generator import MultiSlotDataGenerator


def sample(line, rows):
    """(13 floats, 26 ids in [1, rows), label) of a line."""
    fields = line.rstrip("\r\n").split("\t")
    if len(fields) != 1 + DENSE + SLOTS:
        raise ValueError("a line of Criteo has %d fields separated by tabs, found %d: %.60r"
                         % (1 + DENSE + SLOTS, len(fields), line))
    dense = [math.log1p(max(float(field), 0.0)) if field else 0.0 for field in fields[1 : DENSE + 1]]
    ids = [1 + zlib.crc32(("%d_%s" % (slot, token)).encode()) % (rows - 1) for slot, token in enumerate(fields[DENSE + 1 :])]
    return dense, ids, int(fields[0])


def criteo(path, rows):
    """A reader of such a file for paddle.batch and DataFeeder."""

    def reader():
        with open(path) as lines:
            for line in lines:
                dense, ids, label = sample(line, rows)
                yield (dense, *([each] for each in ids), [label])

    return reader


class Criteo(MultiSlotDataGenerator):
    """Lines of Criteo as lines of slots."""

    def __init__(self, rows):
        super().__init__()
        self.rows = rows

    def generate_sample(self, line):
        def samples():
            dense, ids, label = sample(line, self.rows)
            slots = [("C%d" % number, [each]) for number, each in enumerate(ids, 1)]
            yield [("dense_input", dense), *slots, ("label", [label])]

        return samples


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1000001, help="ids are below that")
    Criteo(parser.parse_args().rows).run_from_stdin()
