"""HDFSClient as it was before Fleet, one file in a call, and what copies the files of a folder, several at a time.

Fleet's client (fleet.utils.hdfs) does the work; `multi_download` and `multi_upload` take either.
"""

from __future__ import annotations

import os
import shutil
import zipfile
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Callable

from paddle.fluid import shown
from paddle.fluid.incubate.fleet.utils import hdfs

__all__ = ["HDFSClient", "multi_download", "multi_upload"]

_TRIES_AGAIN = 5


class HDFSClient(hdfs.HDFSClient):
    """Files on HDFS.

    Args:
        hadoop_home: the folder of the installation: `<hadoop_home>/bin/hadoop` is run.
        configs: settings, such as fs.default.name and hadoop.job.ugi.

    >>> client = fluid.contrib.HDFSClient("hadoop", {"fs.default.name": "hdfs://name:54310", "hadoop.job.ugi": "me,secret"})
    >>> client.pre_commands[:2]             # client.upload("/user/me", "part-0") runs this with -put part-0 /user/me
    ['hadoop/bin/hadoop', 'fs']
    """

    def upload(self, hdfs_path: str, local_path: str, overwrite: bool = False, retry_times: int = _TRIES_AGAIN) -> bool:
        """Copies a file, or a folder with all in it, into a folder on HDFS. False: it was not copied.

        Args:
            hdfs_path: the folder; it is made when it is not there.
            local_path: what to copy.
            overwrite: remove what has its name there; else nothing is copied then.
            retry_times: how often to try again.
        """
        if not os.path.exists(local_path):
            raise FileNotFoundError(f"HDFSClient.upload: there is no {local_path!r} here.")
        return _put(self, hdfs_path, local_path, overwrite, retry_times)

    def download(self, hdfs_path: str, local_path: str, overwrite: bool = False, unzip: bool = False) -> bool:
        """Copies a file, or a folder with all in it, into a folder here. False: it was not copied.

        Args:
            hdfs_path: what to copy.
            local_path: the folder here; it is made when it is not there.
            overwrite: remove what has its name here; else nothing is copied then.
            unzip: unpack it there, if it is a zip file.
        """
        if not self.is_exist(hdfs_path):
            hdfs._logger.error("HDFS path do not exist: %s", hdfs_path)
            return False
        target = os.path.join(local_path, os.path.basename(hdfs_path.rstrip("/")))
        if os.path.lexists(target) and not overwrite:
            hdfs._logger.error("%s is here already, and overwrite=False", target)
            return False
        done = _get(self, hdfs_path, local_path)
        if done and unzip and zipfile.is_zipfile(target):
            with zipfile.ZipFile(target) as packed:
                packed.extractall(local_path)
        return done

    def lsr(self, hdfs_path: str, only_file: bool = True, sort: bool = True) -> list[str]:
        """The paths of all in a folder and those below.

        Args:
            hdfs_path: the folder.
            only_file: leave folders out.
            sort: the oldest first; else, and of one minute, as HDFS lists them.
        """
        found = [each for each in self._list("-lsr", hdfs_path, 1) if not (only_file and each[0].startswith("d"))]
        return [path for _, _, path in (sorted(found, key=lambda each: each[1]) if sort else found)]


def multi_download(client: hdfs.HDFSClient, hdfs_path: str, local_path: str, trainer_id: int, trainers: int,
                   multi_processes: int = 5) -> list[str]:
    """Copies this trainer's files of a folder here, several at a time: of all below it, from the first on, each `trainers`-th.
    What is here already is not copied again. A file that cannot be copied is an error that names it.

    Args:
        client: an HDFSClient.
        hdfs_path: the folder on HDFS.
        local_path: the folder here; what lies in folders below comes into folders of the same names.
        trainer_id: the number of this trainer, from 0 on.
        trainers: how many there are.
        multi_processes: how many files at a time.

    Returns:
        the paths here.
    """
    _need_client(client, "multi_download")
    if not 0 <= trainer_id < trainers:
        raise ValueError(f"multi_download: trainer_id is {trainer_id}, but it must be from 0 on and below trainers, {trainers}.")
    # All trainers see one order, whichever client they have and whatever is still being written.
    mine = sorted(client.lsr(hdfs_path))[trainer_id::trainers]
    os.makedirs(local_path, exist_ok=True)
    folders = [os.path.normpath(os.path.join(local_path, os.path.relpath(os.path.dirname(path), hdfs_path))) for path in mine]
    targets = [os.path.join(folder, os.path.basename(path)) for folder, path in zip(folders, mine)]
    wanted = [(path, folder) for path, folder, target in zip(mine, folders, targets) if not os.path.exists(target)]
    _wait("multi_download", 0, _start(lambda job: _get(client, *job), wanted, multi_processes))
    return targets


def multi_upload(client: hdfs.HDFSClient, hdfs_path: str, local_path: str, multi_processes: int = 5, overwrite: bool = False,
                 sync: bool = True) -> None:
    """Copies all files of a folder and those below to HDFS, several at a time. A file that cannot be copied is an error that
    names it.

    Args:
        client: an HDFSClient.
        hdfs_path: the folder on HDFS; what lies in folders below comes into folders of the same names.
        local_path: the folder here.
        multi_processes: how many files at a time.
        overwrite: also files that are there already; else they are left as they are.
        sync: wait for the end; else they are copied while the script goes on, and what fails is only logged. The process ends
            when all are copied.
    """
    _need_client(client, "multi_upload")
    jobs = [(os.path.normpath(os.path.join(hdfs_path, os.path.relpath(folder, local_path))), os.path.join(folder, name))
            for folder, _, names in os.walk(local_path) for name in sorted(names)]

    def put(job: tuple[str, str]) -> bool:
        return (not overwrite and client.is_exist(_target(*job))) or _put(client, *job, overwrite, _TRIES_AGAIN)

    started = _start(put, jobs, multi_processes)
    if sync:
        _wait("multi_upload", 1, started)


def _need_client(client: hdfs.HDFSClient, what: str) -> None:
    if not isinstance(client, hdfs.HDFSClient):
        raise TypeError(f"{what}: client must be an HDFSClient, found {shown.found(client)}.")


def _get(client: hdfs.HDFSClient, path: str, folder: str) -> bool:
    """Copies into a folder here, over what is there; under another name first, so that what has its name is whole."""
    os.makedirs(folder, exist_ok=True)
    target = os.path.join(folder, os.path.basename(path.rstrip("/")))
    part = f"{target}.part.{os.getpid()}"
    _remove(part)
    if client._run(["-get", path, part], _TRIES_AGAIN)[0]:
        _remove(part)
        return False
    _remove(target)
    os.rename(part, target)
    return True


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.remove(path)


def _put(client: hdfs.HDFSClient, hdfs_path: str, local_path: str, overwrite: bool, retry_times: int) -> bool:
    """Copies into a folder on HDFS, which is made; or over a file, when it names one."""
    target = hdfs_path if client.is_file(hdfs_path) else _target(hdfs_path, local_path)
    if client.is_exist(target):
        if not overwrite:
            hdfs._logger.error("HDFS path is exist: %s and overwrite=False", target)
            return False
        client.delete(target)
    elif not client.makedirs(hdfs_path):
        return False
    return client._run(["-put", local_path, hdfs_path], retry_times)[0] == 0


def _target(hdfs_path: str, local_path: str) -> str:
    return f"{hdfs_path.rstrip('/')}/{os.path.basename(local_path.rstrip('/'))}"


def _start(copy: Callable[[tuple[str, str]], bool], jobs: list[tuple[str, str]], processes: int) -> dict[tuple[str, str], Future]:
    """Starts one copy for each job, so many at a time."""
    pool = ThreadPoolExecutor(max(int(processes), 1))
    started = {job: pool.submit(copy, job) for job in jobs}
    pool.shutdown(wait=False)
    return started


def _wait(what: str, source: int, started: dict[tuple[str, str], Future]) -> None:
    """Waits for copies; an error names those that failed by item `source` of the job."""
    hdfs.check_copied(what, [job[source] for job, done in started.items() if not done.result()], len(started))
