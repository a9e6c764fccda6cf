"""The descriptions of pslib's servers and workers."""

from paddle.fluid.incubate.fleet.parameter_server.pslib.not_there import fill_absent

__all__ = ["Server", "Worker", "DownpourServer", "DownpourWorker"]


class Server:
    """What describes a server."""


class Worker:
    """What describes a worker."""


class DownpourServer(Server):
    """The description of a server with its tables."""


class DownpourWorker(Worker):
    """The description of a worker.

    Args:
        window: batches between two exchanges.
    """

    def __init__(self, window: int):
        self.window = window


fill_absent(DownpourServer, """
    add_sparse_table add_dense_table add_data_norm_table add_sparse_optimizer add_sparse_table_common_config get_desc
    """)
fill_absent(DownpourWorker, "add_sparse_table add_dense_table get_desc")
