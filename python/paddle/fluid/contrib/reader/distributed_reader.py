"""distributed_batch_reader: the batches of one reader are dealt out to the trainers of a job."""

from __future__ import annotations

import itertools
from typing import Any, Callable, Iterator

from paddle.batch import need_reader
from paddle.fluid.incubate.fleet.base.environment import Environment

__all__ = ["distributed_batch_reader"]


def distributed_batch_reader(batch_reader: Callable[[], Any]) -> Callable[[], Iterator]:
    """A reader of this trainer's batches: of each PADDLE_TRAINERS_NUM of them the one with the number PADDLE_TRAINER_ID. Each
    trainer reads all of the data, and all get the same number of batches: what is left at the end and not enough for all is left
    out.

    Args:
        batch_reader: a reader of batches, which gives the same ones in all trainers.

    Returns:
        the reader of its share; the same batches where the variables are not set.

    >>> batches = fluid.contrib.reader.distributed_batch_reader(paddle.batch(lambda: range(5), batch_size=2))
    >>> list(batches())
    [[0, 1], [2, 3], [4]]
    """
    need_reader("distributed_batch_reader", batch_reader)
    variables = Environment("the share of a trainer", {"PADDLE_TRAINERS_NUM": "2", "PADDLE_TRAINER_ID": "0"})
    count = variables.number("PADDLE_TRAINERS_NUM", "the number of trainers, the same in every process", 1, "1")
    mine = variables.number("PADDLE_TRAINER_ID", "the number of this trainer, from 0 on", 0, "0")
    if count is not None and mine is not None and mine >= count:
        variables.refuse("PADDLE_TRAINER_ID", f"it must be below PADDLE_TRAINERS_NUM, {count}")
    variables.check("distributed_batch_reader does not know what to read")

    def share() -> Iterator:
        if count == 1:
            yield from batch_reader()
            return
        print(f"start data reader (trainers_num: {count}, trainer_id: {mine})", flush=True)
        batches = iter(batch_reader())
        while len(dealt := list(itertools.islice(batches, count))) == count:
            yield dealt[mine]

    return share
