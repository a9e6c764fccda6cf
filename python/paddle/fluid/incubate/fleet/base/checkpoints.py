"""Checkpoints of a Fleet job, and going on from one: what each process does. docs/RESUME.md is the guide.

A pass is one call of train_from_dataset or infer_from_dataset, or one time through a reader of fleet.resumable. Each worker counts
its passes, and the batches that each of its threads has had of the present one. Every so many batches the workers meet and look
whether a checkpoint is due. Who has no more batches meets the others until all have none: so they leave a pass together, and a look
is at the same step for all. The batches of the worker that has had most of them since the last look count in the next pass.

A job that goes on runs its script from the beginning. Passes that the checkpoint has are passed over; data that are loaded and
shuffled are loaded and shuffled again, with the same seeds; in the pass of the checkpoint batches are read over up to its place.
There the worker gets what it alone holds: statistics, metrics, the state of random numbers.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any

from paddle import _core
from paddle.fluid import io
from paddle.fluid.executor import global_scope
from paddle.fluid.incubate.fleet.base import checkpoint_folder as folders
from paddle.fluid.incubate.fleet.base import checkpoint_job as jobs
from paddle.fluid.incubate.fleet.base import checkpoint_values as values
from paddle.fluid.log_helper import log_line, tell

_LOOK = 100  # batches between two looks, where checkpoints come by time
_SMALL = 1 << 30  # bytes of a checkpoint that the first worker reads whole before the job begins
_STATE, _VALUES = "state.json", "values"
_MASK = 2**64 - 1
_TEXT_MOST = 2000


def from_flags(fleet: Any) -> Checkpoints | None:
    """As FLAGS_checkpoint_dir and FLAGS_resume say; None: neither does."""
    folder, resume = _core.flag_get("checkpoint_dir"), _core.flag_get("resume")
    if not folder and resume == "never":
        return None
    return Checkpoints(fleet, os.path.abspath(folder) if folder else "", resume)


class _Pass:
    """A pass of this worker (data_passes.Pass). With `state` it is the one in which the checkpoint was made; with `is_over` this
    worker has no batch of it to train.
    """

    def __init__(self, owner: Checkpoints, kind: str, scope: Any, state: dict | None = None, is_over: bool = False):
        self._owner, self.kind, self.scope, self.is_over = owner, kind, scope, is_over
        self._wanted = state["data"] if state else None  # what it goes over, where it goes on
        self.skip = self.batches = state["batches"] if state else 0  # of each thread; the second up to the last pause
        self.random_begin = state["random_begin"] if state else values.random_state()
        self.item: Any = None  # the last one that a reader gave
        self.every = owner.every if kind == "train" and (state or not is_over) else 0
        self.since = owner.since if self.every else 0  # the last look, in passes before
        self.data: dict = {}

    def goes_over(self, data: dict) -> None:
        """What it goes over, in plain values; where it goes on, the same as before."""
        self.data = data
        was = data if self._wanted is None else self._wanted
        for key in sorted({*was, *data}):
            if was.get(key) != data.get(key):
                raise RuntimeError(
                    f"the checkpoint {self._owner.path!r} was made in the middle of a pass over other data: {key} was "
                    f"{_short(was.get(key))}, and is {_short(data.get(key))}. Batches are counted, so it must be the same, in the "
                    "same order.")

    def pause(self, report: Any = None) -> None:
        """None of its threads computes, and each has had `every` batches since the last look or has no more."""
        self.batches += self.every - self.since
        self.since = 0
        self._owner._look(self, False)

    def end(self, since: int | None = None) -> None:
        """This worker has no more batches; the thread that has had most of them has had `since` since the last look. Returns when
        no worker has more."""
        self.since = self.since if since is None else since
        while self.every and not self._owner._look(self, True):
            self.since = 0


class Checkpoints:
    """What a process does for the checkpoints of its job.

    Args:
        fleet: the fleet, which knows its role.
        folder: where checkpoints go; "": none are made.
        resume: FLAGS_resume.
    """

    def __init__(self, fleet: Any, folder: str, resume: str):
        self._fleet, self._role, self.folder = fleet, fleet._role(), folder
        self.path, wrong = folders.choose(folder, resume)
        for problem in wrong:
            tell(f"a checkpoint is passed over: {problem}")
        self._list = folders.read_list(self.path) if self.path else {}
        self.steps, self.seconds = int(_core.flag_get("checkpoint_steps")), int(_core.flag_get("checkpoint_seconds"))
        self.keep = int(_core.flag_get("checkpoint_keep"))
        self.every = 0 if not folder else self.steps or (_LOOK if self.seconds else 0)
        self.passes = self.trained = 0  # so far; the second: those that train
        self.since = 0  # batches of passes before this one, behind the last look
        self._has_made = False  # a checkpoint, or tried to
        self._trains: dict = {}  # what the job trains (checkpoint_job.py)
        self._begins_with: dict = {}  # what this worker alone holds, behind minimize
        self._draws = 0
        self._state: dict | None = None  # of the checkpoint, until its place is reached
        self._made = time.monotonic()
        self._workers = 0  # that were there when it was told that some are missing
        self._lock = folders.lock(folder) if folder and self._role.is_first_worker() else None
        self._begin_seeds()
        if self.path and self._role.is_worker():
            self._read_state()

    def _begin_seeds(self) -> None:
        """Without seeds too, what is drawn at random is the same when the job goes on."""
        place = 0 if self._role.is_server() else 1 + self._role.worker_index()
        self._job = self._list["job"] if self.path else folders.job_number(self.folder)
        self._seed = (self._job + (place << 40)) & _MASK
        _core.seed_programs(self._seed)

    @property
    def name(self) -> str:
        """The checkpoint that the job goes on from; "": it began anew."""
        return os.path.basename(self.path) if self.path else ""

    # ---- what the job is ----

    def describe(self, transpiler: Any) -> bool:
        """The Program of the job is known. Is the checkpoint one of such a job? check() says what is not."""
        self._trains = jobs.trained(transpiler)
        self._begins_with = jobs.own(transpiler._job.program) if self._state else {}
        return not self._difference()

    def _difference(self) -> str:
        if not self.path or not self._trains:
            return ""
        found = jobs.difference(self._list["trains"], self._trains)
        if self._state and not found:  # a script may make more of them up to the checkpoint's place
            was = self._state["own"]
            found = jobs.difference({what: was[what] for what in self._begins_with if what in was}, self._begins_with)
        return found

    def check(self) -> None:
        """Raises where the checkpoint is one of another job."""
        self._refuse(self._difference())

    def _refuse(self, difference: str) -> None:
        if difference:
            raise RuntimeError(f"the checkpoint {self.path!r} is of a job that trains something else: {difference}. A job goes on "
                               "with the mode, the variables and the optimizer that it had (a learning rate may be another one). "
                               "To begin anew with these parameters, give fleet.init_server() the folder "
                               f"{os.path.join(self.path, folders.MODEL)!r}, leave out FLAGS_resume, and give another "
                               "FLAGS_checkpoint_dir.")

    def _check_files(self, inner: str) -> None:
        """Reads every byte of one of the checkpoint's folders; "": of all. Raises where one is another than was written."""
        problem = folders.damage(self.path, True, inner)
        if problem is not None:
            raise ValueError(f"{problem}. FLAGS_resume=FOLDER goes on from an older checkpoint; or remove {self.path!r}.")

    # ---- a server ----

    def model(self) -> str | None:
        """The folder that a server loads."""
        if not self.path:
            return None
        if _core.flag_get("ps_dir") and _core.flag_get("ps_fresh") not in ("1", "true"):
            raise ValueError(
                f"this job goes on from the checkpoint {self.path!r}, and FLAGS_ps_dir={_core.flag_get('ps_dir')} has servers go "
                "on from what they keep there: unset one of FLAGS_resume and FLAGS_ps_dir, or set FLAGS_ps_fresh=1 to move aside "
                "what is in FLAGS_ps_dir.")
        self.check()
        self._check_files(folders.MODEL)
        log_line(f"this server begins with the checkpoint {self.path}")
        return os.path.join(self.path, folders.MODEL)

    # ---- a worker: going on ----

    def _read_state(self) -> None:
        workers = self._list["workers"]
        if workers != self._role.worker_num():
            raise ValueError(f"the checkpoint {self.path!r} is of a job with {workers} workers, and this one has "
                             f"{self._role.worker_num()}: each goes on where it was in its own data. Start {workers}; the number "
                             "of servers is free. To begin anew with these parameters, give fleet.init_server() the folder "
                             f"{os.path.join(self.path, folders.MODEL)!r}.")
        mine = folders.worker_folder(self._role.worker_index())
        self._check_files("" if self._role.is_first_worker() and folders.bytes_of(self.path) < _SMALL else mine)
        self._state = folders.read_state(os.path.join(self.path, mine, _STATE))
        _core._set_left(True)  # until its place is reached, Executor.run asks before it trains
        log_line(f"this worker goes on from the checkpoint {self.path}: pass {self._state['pass']}, behind "
                 f"{self._state['batches']} batches of each thread")

    def is_passing_over(self) -> bool:
        """Has the script not reached the place of the checkpoint yet?"""
        return self._state is not None

    def draw(self, bits: int) -> int:
        """A seed for what is done to the data at random (data_passes.Counter)."""
        self._draws += 1
        return random.Random(f"{self._seed} {self._draws}").getrandbits(bits)

    def begin(self, kind: str, scope: Any) -> _Pass:
        """A pass begins (data_passes.Counter)."""
        self.passes += 1
        self.trained += kind == "train"
        state = self._state
        if self.passes == 1:
            self.check()
            self._check_new()
            self._made = time.monotonic()
        if state is None:
            return _Pass(self, kind, scope)
        if self.passes < state["pass"]:
            tell(f"pass {self.passes} ({kind}) is in the checkpoint: it is not made again.")
            return _Pass(self, kind, scope, is_over=True)
        if kind != state["kind"]:
            raise RuntimeError(f"the checkpoint {self.path!r} was made in pass {state['pass']} over the data, which was one to "
                               f"{state['kind']}, and here it is one to {kind}: run the script that made the checkpoint.")
        self._reach(state, scope)
        return _Pass(self, kind, scope, state, is_over=state["ended"])

    def _check_new(self) -> None:
        """A job whose servers have had steps without this process is no new one."""
        transpiler = getattr(self._fleet, "_transpiler", None)
        main = self._fleet.main_program
        if transpiler is None or main is None or main._runs or not _core.job_key(self._role.get_pserver_endpoints()[0]):
            return
        steps = transpiler.steps_done()
        if steps:
            raise RuntimeError(f"the servers are at step {steps} of a job that this worker was in: with FLAGS_checkpoint_dir a "
                               "worker cannot go on alone, and not from what servers keep in FLAGS_ps_dir. End the job, and start "
                               "all of it with FLAGS_resume=auto (and FLAGS_ps_fresh=1 where FLAGS_ps_dir is set).")

    def _reach(self, state: dict, scope: Any) -> None:
        """The place of the checkpoint: what this worker alone held there."""
        folder = os.path.join(self.path, folders.worker_folder(self._role.worker_index()), _VALUES)
        main = self._fleet.main_program
        if main is not None:
            self._refuse(jobs.difference(state["own"], jobs.own(main)))
            main._runs = state["runs"]
        origin = self._fleet._origin_program
        values.load(self._fleet._executor, folder, state["values"], scope, set() if origin is None else jobs.given_rates(origin))
        values.set_random_state(state["random"])
        _core._set_left(False)
        self._state, self._made = None, time.monotonic()

    # ---- a worker: checkpoints ----

    def _may_be_due(self) -> bool:
        """With steps, it is unless all workers have ended."""
        if not self._role.is_first_worker():
            return False
        return bool(self.steps) or time.monotonic() - self._made >= self.seconds

    def _next_number(self) -> tuple[int, str]:
        """Of a checkpoint; or 0, and why the folder cannot be read now."""
        try:
            return folders.next_number(self.folder), ""
        except OSError as error:
            return 0, str(error)

    def _tell_failure(self, why: str) -> None:
        self._made, self._has_made = time.monotonic(), True
        tell(f"a checkpoint could not be written, and training goes on without it: {why}")

    def _gather(self, what: str, given: dict) -> list[dict]:
        return self._role._gathered(f"checkpoints: {what}", given)

    def _tell_of_fewer(self, workers: int) -> None:
        if self._workers != workers:
            tell(f"no checkpoint is made: only {workers} of {self._role.worker_num()} workers are there.")
        self._workers = workers

    def _look(self, counted: _Pass, is_ended: bool) -> bool:
        """Workers meet. Has none of them any more batches?"""
        number, problem = self._next_number() if self._may_be_due() else (0, "")
        said = self._gather("look", {"worker": self._role.worker_index(), "ended": is_ended, "number": number, "from": self.name,
                                     "pass": self.trained, "since": counted.since})
        for each in said:
            for key, text in (("from", "goes on from {!r}"), ("pass", "is in its training pass {}")):
                if each[key] != said[0][key]:
                    raise RuntimeError(f"worker {said[0]['worker']} {text.format(said[0][key])}, and worker {each['worker']} "
                                       f"{text.format(each[key])}: with checkpoints all workers go over their data as often, one "
                                       "without files too, and all go on from one checkpoint.")
        is_over = all(each["ended"] for each in said)
        self.since = max(each["since"] for each in said) if is_over else 0
        if self.steps and is_over:
            return True
        number = max(each["number"] for each in said)
        if problem:
            self._tell_failure(problem)
        elif number and len(said) < self._role.worker_num():
            self._tell_of_fewer(len(said))
        elif number:
            self._save(counted, is_ended, number)
        return is_over

    def _save(self, counted: _Pass, is_ended: bool, number: int) -> None:
        begin = time.monotonic()
        self._has_made = True
        if self._role.worker_num() > 1:
            self._role.barrier_worker()  # behind it servers have all that any worker gave
        part, problem = folders.path_of(self.folder, number, folders.PART), None
        try:
            self._write(part, counted, is_ended)
        except Exception as error:  # a full disk does not end the training
            problem = f"{type(error).__name__}: {error}"[:_TEXT_MOST]
        wrong = [(each["worker"], each["problem"]) for each in
                 self._gather("written", {"worker": self._role.worker_index(), "problem": problem}) if each["problem"]]
        self._made = time.monotonic()
        if not self._role.is_first_worker():
            return
        if not wrong:
            try:
                folders.write_list(part, {"job": self._job, "workers": self._role.worker_num(),
                                          "servers": len(self._role.get_pserver_endpoints()), "trains": self._trains,
                                          "time": time.time(), "pass": self.passes, "batches": counted.batches})
                os.rename(part, folders.path_of(self.folder, number))
                folders.remove_old(self.folder, self.keep)
                log_line(f"checkpoint {folders.path_of(self.folder, number)}: pass {self.passes}, {counted.batches} batches, "
                         f"{self._made - begin:.2f} s")
                return
            except OSError as error:
                wrong = [(0, str(error))]
        shutil.rmtree(part, ignore_errors=True)
        self._tell_failure(f"worker {wrong[0][0]}: {wrong[0][1]}")

    def _write(self, part: str, counted: _Pass, is_ended: bool) -> None:
        mine = os.path.join(part, folders.worker_folder(self._role.worker_index()))
        if self._role.is_first_worker():
            io.save_persistables(self._fleet._executor, os.path.join(part, folders.MODEL), self._fleet.main_program)
        os.makedirs(os.path.join(mine, _VALUES))
        main = self._fleet.main_program
        held = values.save(self._fleet._executor, os.path.join(mine, _VALUES), main, counted.scope)
        folders.write_json(os.path.join(mine, _STATE), {
            "pass": self.passes, "kind": counted.kind, "batches": counted.batches, "ended": is_ended, "data": counted.data,
            "runs": main._runs, "random": values.random_state(), "random_begin": counted.random_begin, "values": held,
            "item": values.mark(counted.item), "own": jobs.own(main)})

    def check_end(self) -> None:
        """At stop_worker: was the place reached?"""
        if self._state is not None:
            raise RuntimeError(f"the checkpoint {self.path!r} was made in pass {self._state['pass']} of the data, and this script "
                               f"ended after {self.passes}: it has trained nothing and saved nothing. Run it with as many passes "
                               "as before, or more.")
        if self.path or self._has_made or not self.every or not self._role.is_first_worker():
            return
        main = self._fleet.main_program
        if not self.trained and main is not None and main._runs:
            tell("no checkpoint was made: all training was outside of passes over data. Let fleet.resumable(reader) count the "
                 "batches that exe.run trains (docs/RESUME.md).")
        elif self.trained and self.steps and not self._workers:
            tell(f"no checkpoint was made: each thread has had {self.since} batches at most, and FLAGS_checkpoint_steps is "
                 f"{self.steps}.")

    # ---- scripts that feed ----

    def resumable(self, reader: Callable[[], Iterator]) -> Callable[[], Iterator]:
        """The reader, whose items are counted as batches."""

        def go_on() -> Iterator:
            state = self._state
            counted = self.begin("train", global_scope())
            if counted.is_over:
                counted.end()
                return
            counted.goes_over({"reader": "items in the order in which the reader gives them"})
            if counted.skip:
                values.set_random_state(counted.random_begin)  # it may shuffle: as it did then
            left = counted.every - counted.since
            for count, item in enumerate(reader(), 1):
                if count <= counted.skip:
                    if count == counted.skip:
                        self._check_item(item, state)
                        values.set_random_state(state["random"])
                    continue
                yield item
                counted.item = item
                left -= 1
                if not left:  # never, where there are no looks
                    counted.pause()
                    left = counted.every
            counted.end(counted.every - left)

        return go_on

    def _check_item(self, item: Any, state: dict) -> None:
        """The last one of those that the checkpoint has."""
        if values.mark(item) != state.get("item"):
            raise RuntimeError(f"the checkpoint {self.path!r} was made behind {state['batches']} items of this reader, and the "
                               "last of them is another one now: the reader must give the same items in the same order in the "
                               "same pass (seed what shuffles them, for each pass).")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 200 else text[:200] + "..."
