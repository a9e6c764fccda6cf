"""InMemoryDataset.global_shuffle over several workers: they meet at the servers, and deal out samples straight to each other."""

from __future__ import annotations

import os
import random
import socket
from typing import Any

from paddle.fluid import data_passes
from paddle.fluid.transpiler.details.checkport import way_to

_TEXT_MOST = 2000


def deal(dataset, fleet: Any, seed: int | None, by_id: bool) -> None:
    """Deals out the samples that all workers have in memory, at random: each gets an equal part of them; with `by_id` those of one
    id go to one worker.

    Whoever cannot take part says so in a meeting, so that nobody waits for it.
    """
    role = fleet._role_maker
    worker, workers = fleet.worker_index(), fleet.worker_num()
    engine = dataset.dataset
    token, drawn = random.SystemRandom().getrandbits(64) | 1, data_passes.draw() | 1
    samples = engine.size()[0]
    said = _meet(role, workers, {"samples": samples, "slots": repr(dataset._lines), "seed": seed, "drawn": drawn, "token": token,
                                 "by_id": by_id})
    _check_alike(said)
    try:
        found, problem = _listen(role, engine, worker, workers, said[0]["token"])
        _raise_first(found, problem, "")
        try:
            engine.deal(worker, [each["at"] for each in found], [each["samples"] for each in said],
                        said[0]["drawn"] if seed is None else seed, by_id)
        except Exception as error:
            problem = error
        try:
            found = _meet(role, workers, {"samples": engine.size()[0], "error": _text(problem)})
        except Exception as error:
            engine.drop()
            raise (problem or error) from None
    finally:
        engine.unlisten()
    before, after = (sum(each["samples"] for each in given) for given in (said, found))
    if problem is None and before == after and not any(each["error"] for each in found):
        return
    engine.drop()  # a part of them is with nobody
    _raise_first(found, problem, ", and its samples are lost: call load_into_memory() again")
    raise RuntimeError(f"global_shuffle: workers had {before} samples, and have {after} now. Start the job again.")


def _listen(role, engine, worker: int, workers: int, token: int) -> tuple[list[dict], Exception | None]:
    """All others, and what went wrong here."""
    address, problem = None, None
    try:
        host, port = _address(role)
        address = _joined(host, engine.listen(_joined(host, port), worker, workers, token))
    except Exception as error:
        problem = error
    return _meet(role, workers, {"at": address, "error": _text(problem)}), problem


def _meet(role, workers: int, given: dict) -> list[dict]:
    found = role.all_gather(given)
    if len(found) < workers:
        raise RuntimeError(f"global_shuffle: only {len(found)} of {workers} workers are there; the others have ended or were lost, "
                           "and their samples with them. Start the job again.")
    return found


def _check_alike(said: list[dict]) -> None:
    texts = {"slots": "lines (set_parse_ins_id, set_parse_content, set_use_var) are", "seed": "seed (set_shuffle_seed) is",
             "by_id": "set_merge_by_lineid is"}
    for key, text in texts.items():
        for worker, each in enumerate(said):
            if each[key] != said[0][key]:
                raise ValueError(f"global_shuffle: worker {worker}'s {text} {each[key]}, and worker 0's {said[0][key]}: "
                                 "all workers must have the same.")
    if not sum(each["samples"] for each in said):
        raise ValueError("global_shuffle: no worker has a sample in memory; call load_into_memory() first.")


def _text(problem: Exception | None) -> str | None:
    return None if problem is None else f"{type(problem).__name__}: {problem}"[:_TEXT_MOST]


def _raise_first(found: list[dict], own: Exception | None, then: str) -> None:
    """What went wrong: here, or else with another worker."""
    if own is not None:
        raise own
    for worker, each in enumerate(found):
        if each["error"]:
            raise RuntimeError(f"global_shuffle failed in worker {worker}{then}. There: {each['error']}")


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _address(role) -> tuple[str, int]:
    """Where others reach this worker: PADDLE_WORKER_ADDRESS, else the address by which this machine reaches the first server."""
    given = os.environ.get("PADDLE_WORKER_ADDRESS", "")
    if given:
        host, colon, port = given.rpartition(":")
        if colon and port.isdigit() and (":" not in host or host.startswith("[")):
            return host.strip("[]"), int(port)
        return given.strip("[]"), 0
    server = role.get_pserver_endpoints()[0]
    host, _, port = way_to(server).rpartition(":")
    family, _, _, _, address = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:  # sends nothing
        probe.connect(address)
        return probe.getsockname()[0], 0
