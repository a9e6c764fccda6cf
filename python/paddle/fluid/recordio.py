"""core.RecordIOWriter of v0.12 to v1.5: scripts name its Compressor in default arguments, also those that write no such file."""

from __future__ import annotations

import enum
from typing import NoReturn

from paddle import absent


class RecordIOWriter:
    """Cannot be made: recordio files are not there yet."""

    class Compressor(enum.IntEnum):
        NoCompress = 0
        Snappy = 1

    def __init__(self, *args: object) -> NoReturn:
        raise NotImplementedError(absent.sentence("fluid.core.RecordIOWriter", absent.find("paddle.fluid.recordio_writer")))
