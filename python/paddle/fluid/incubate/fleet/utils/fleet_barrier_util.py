"""Workers wait for each other by files on HDFS."""

from __future__ import annotations

import os
import time

from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.utils.hdfs import HDFSClient

_PAUSE_SECONDS = 1.0
_READY = "All trainers are ready, continue training"


def check_all_trainers_ready(ready_path: str, epoch: int) -> None:
    """Returns when all workers have called it for this epoch. HADOOP_HOME, FS_NAME and FS_UGI of the environment say where HDFS is;
    the only worker of a job needs none.

    Args:
        ready_path: a folder on HDFS for the files that workers leave.
        epoch: its number.
    """
    missing = [name for name in ("HADOOP_HOME", "FS_NAME", "FS_UGI") if not os.environ.get(name)]
    if missing and fleet.worker_num() == 1:
        print(_READY, flush=True)
        return
    if missing:
        raise ValueError(f"check_all_trainers_ready reads HADOOP_HOME, FS_NAME and FS_UGI; {', '.join(missing)} is not set.")
    configs = {"fs.default.name": os.environ["FS_NAME"], "hadoop.job.ugi": os.environ["FS_UGI"]}
    client = HDFSClient(os.environ["HADOOP_HOME"], configs)
    mine = f"ready.{epoch}.{fleet.worker_index()}.done"
    with open(mine, "w"):
        pass
    client.makedirs(ready_path)
    client.upload(hdfs_path=ready_path, local_path=mine, retry_times=0)
    print(f"PUT {mine} ON HDFS {ready_path} OK", flush=True)
    wanted = {f"ready.{epoch}.{number}.done" for number in range(fleet.worker_num())}
    while left := wanted - {os.path.basename(path) for path in client.ls(ready_path)}:
        numbers = sorted(int(name.split(".")[2]) for name in left)
        print(f"have {len(left)} trainers need to be ready: {', '.join(map(str, numbers))}", flush=True)
        time.sleep(_PAUSE_SECONDS)
    print(_READY, flush=True)
