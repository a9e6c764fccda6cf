"""The engine for one machine: starts the processes of a plan, watches them, starts them again where that was asked for, and ends
them. It has one thread and sleeps until a process ends, a signal comes, or something is due."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from paddle.distributed import callers, family, summary, watch, watched
from paddle.distributed.job import SERVER, WORKER, Job
from paddle.distributed.plan import Process
from paddle.distributed.show import Follower, ending, red, say, span, write
from paddle.distributed.summary import Running

FOLLOW_EVERY = 0.2  # seconds
SERVERS_END_WITHIN = 2.0  # seconds after the last worker; then they are asked to
TOLD_EVERY = 10.0
CALLED_AFTER, LISTEN_EVERY = 3.0, 0.5  # a server that has ended is called by nobody any more, unless it did not serve
LONGEST_PAUSE = 2.0  # before a process is started again; servers wait FLAGS_ps_reconnect (5 s) when all workers have failed
OTHERS_FAIL_WITHIN = 0.5  # seconds: processes hear of each other's failures, and end with a message that is worth having
_ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass
class Engine:
    job: Job
    processes: list[Process]
    inherited: Mapping[str, str]
    follower: Follower = field(default_factory=lambda: Follower({}))
    words: tuple[str, str] | None = None  # upstream's, when all workers have ended and when all servers have
    door: watch.Door | None = None  # where the job can be watched
    began: float = field(default_factory=time.monotonic)
    all: list[Running] = field(default_factory=list)
    failed: list[Running] = field(default_factory=list)  # those that failed by themselves, for good, in the order of their ends
    user_signal: int = 0  # by which the user ended the job
    is_orphan: bool = False  # the launcher was killed
    stopping: bool = False
    killed: bool = False
    finishing_at: float | None = None  # when all workers had ended
    due: dict[str, float] = field(default_factory=dict)  # what happens later, and when
    places: dict[str, callers.Place] = field(default_factory=dict)  # of servers that have ended with status 0
    left: list[str] = field(default_factory=list)  # what processes left behind
    watcher: int = 0  # the process that shows the job; 0: none
    told: str = ""  # what it was told last

    # ---- the loop ----

    def run(self, lifeline: int) -> int:
        """Returns the status of the job when nothing of it is left."""
        here, there = socket.socketpair()
        here.setblocking(False)
        there.setblocking(False)
        signal.set_wakeup_fd(there.fileno(), warn_on_full_buffer=False)
        signals = [number for number in _ASKING if signal.getsignal(number) != signal.SIG_IGN]
        for number in (*signals, signal.SIGCHLD):
            signal.signal(number, lambda *unused: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {*_ASKING, signal.SIGCHLD})

        self.all = [Running(process) for process in self.processes]
        if self.door:
            self.watcher = watch.start(self.door, self.job, self.job.reports)
        for each in self.all:
            self._start(each)
        self._tell_watcher()
        waits = select.poll()
        waits.register(here, select.POLLIN)
        waits.register(lifeline, select.POLLIN)
        while not all(each.is_over for each in self.all):
            for handle, _ in waits.poll(self._patience()):
                if handle == lifeline:
                    waits.unregister(lifeline)
                    say("the launcher was killed; ending the job")
                    self.is_orphan = True
                    self.stop(signal.SIGTERM)
                else:
                    for number in here.recv(4096):
                        self._take(number)
            self._reap()
            self._do_what_is_due()
            self.follower.show()
            self._tell_watcher()
        self._end_watcher()
        self.left += family.kill_all()
        self.follower.show(all_of_it=True)
        if self.words and self.finishing_at is not None:
            write(self.words[1])
        summary.tell(self.all, self.failed, self.left, self.user_signal, self.is_orphan, self.began)
        return summary.status(self.all, self.failed, self.user_signal)

    def _patience(self) -> float | None:
        """Milliseconds until something is due; None: nothing is."""
        times = [*self.due.values(), *(each.again_at for each in self.all if each.again_at is not None)]
        if self.follower:
            times.append(time.monotonic() + FOLLOW_EVERY)
        return max(0.0, min(times) - time.monotonic()) * 1000 + 1 if times else None

    def _tell_watcher(self) -> None:
        if self.watcher:
            self.told = watched.write_state(self.job.reports, self.all, self.stopping, self.told)

    def _end_watcher(self) -> None:
        if self.watcher:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.watcher, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.watcher, 0)
            self.watcher = 0

    def _take(self, number: int) -> None:
        """A signal has come."""
        if number not in _ASKING:
            return
        if self.user_signal and not self.killed:
            say("once more: all processes are killed")
            self._kill()
        elif not self.user_signal:
            self.user_signal = number
            name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
            say(f"{name}: ending the job; once more kills it at once")
            self.stop(number)

    def _do_what_is_due(self) -> None:
        now = time.monotonic()
        for what in [what for what, when in self.due.items() if when <= now]:
            if self.due.pop(what, None) is not None:  # one thing may make another needless
                getattr(self, f"_{what}")()
        for each in self.all:
            if each.again_at is not None and each.again_at <= now:
                self._start(each)

    # ---- how processes end ----

    def _reap(self) -> None:
        """Reads how processes have ended, also those that others have left behind."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self.watcher:
                    self.watcher = 0
                    say("the process that shows the job by HTTP has ended; the job goes on")
                for each in self.all:
                    if each.pid == pid:
                        each.pid, each.ended = 0, time.monotonic()
                        each.status = os.waitstatus_to_exitcode(status)
                        each.peak = max(each.peak, usage.ru_maxrss)
                        self._clear_group(pid)
                        self._has_ended(each)

    def _clear_group(self, group: int) -> None:
        """What a process that has ended started and left behind would hold its files and ports, and write into its log."""
        for pid, its_group, name in family.children():
            if its_group == group:
                self.left.append(f"{name} (process {pid})")
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _has_ended(self, each: Running) -> None:
        workers = [other for other in self.all if other.process.role == WORKER]
        if not self.stopping and each.has_failed and not self._starts_again(each):
            self._has_failed(each)
        if each.process.role == SERVER and each.status == 0 and not each.asked:
            self.due["listen"] = time.monotonic() + CALLED_AFTER
        is_ending = self.stopping or "end_others" in self.due or self.finishing_at is not None
        if not is_ending and workers and all(other.is_over for other in workers):
            self._finish()

    def _starts_again(self, each: Running) -> bool:
        role = self.job.servers if each.process.role == SERVER else self.job.workers
        servers_gone = [other for other in self.all if other.process.role == SERVER and other.is_over and other is not each]
        if each.starts > role.restarts or self.finishing_at is not None or servers_gone or "end_others" in self.due:
            return False
        wait = min(0.25 * 2 ** (each.starts - 1), LONGEST_PAUSE)
        each.again_at = time.monotonic() + wait
        say(f"{each.name} {ending(each.status)} after {span(each.seconds)}; it is started again in {span(wait)} "
            f"({each.starts} of {role.restarts})")
        return True

    def _has_failed(self, each: Running) -> None:
        """It has, and is not started again."""
        self.failed.append(each)
        text = f"{each.name} {ending(each.status)} after {span(each.seconds)}"
        if each.process.role == WORKER and self.job.keeps_going:
            say(red(text) + "; the others go on")
        elif "end_others" in self.due or all(other.is_over for other in self.all):
            say(red(text))
        else:
            say(red(text) + "; ending the others")
            self.due["end_others"] = time.monotonic() + OTHERS_FAIL_WITHIN

    def _listen(self) -> None:
        """Does a worker wait for a server that has ended with status 0? Most servers end a moment before the last worker."""
        workers = {each.pid for each in self.all if each.process.role == WORKER} - {0}
        if self.stopping or self.finishing_at is not None:
            return
        for each in self.all:
            if each.process.role != SERVER or each.status != 0 or each.pid:
                continue
            if each.name not in self.places:
                with contextlib.suppress(OSError):
                    self.places[each.name] = callers.Place(each.process.endpoint)
            elif self.places[each.name].is_called_by(workers):
                self._ended_early(each)
                return
        if self.places:
            self.due["listen"] = time.monotonic() + LISTEN_EVERY

    def _ended_early(self, each: Running) -> None:
        each.is_early = True
        self.failed.append(each)
        say(red(f"{each.name} has ended with status 0 before the workers: does the script call fleet.run_server()?"))
        self.stop(signal.SIGTERM)

    def _end_others(self) -> None:
        self.stop(signal.SIGTERM)

    def _finish(self) -> None:
        """All workers of this machine have ended: so will the servers, by themselves. Workers elsewhere may still need them."""
        self.finishing_at = time.monotonic()
        if self.words:
            write(self.words[0])
        if len(self.all) == self.job.size:
            self.due["ask_servers"] = self.finishing_at + SERVERS_END_WITHIN
        elif not all(each.is_over for each in self.all):
            say("the workers of this machine have ended; its servers end with those of the other machines")

    def _ask_servers(self) -> None:
        """Servers of other makers wait to be asked."""
        for each in self.all:
            if not each.is_over:
                self._send(each, signal.SIGTERM)
        self.due["kill_late"] = time.monotonic() + self.job.grace
        self.due["tell"] = time.monotonic() + TOLD_EVERY

    # ---- starting and ending ----

    def _start(self, each: Running) -> None:
        each.again_at, each.asked = None, ""
        each.starts += 1
        each.began = time.monotonic()
        again = f"started again at {time.strftime('%H:%M:%S')}" if each.starts > 1 else ""
        try:
            each.pid = each.last_pid = family.start(each.process, each.process.environment(self.inherited), again)
        except OSError as why:  # no more processes, or no memory
            say(f"{each.name} could not be started: {why.strerror}")
            each.status, each.ended = 126, each.began
            self._has_failed(each)

    def _send(self, each: Running, number: int) -> None:
        each.asked = signal.Signals(number).name
        with contextlib.suppress(ProcessLookupError):
            os.kill(each.pid, number)
            os.kill(each.pid, signal.SIGCONT)  # one that was stopped would not hear it

    def stop(self, number: int) -> None:
        """Asks all processes to end, workers by the signal that came, servers by SIGTERM, by which they keep what they have."""
        for each in self.all:
            if each.again_at is not None:
                each.again_at = None
            if each.pid and not self.stopping:
                self._send(each, number if each.process.role == WORKER else signal.SIGTERM)
        if not self.stopping:
            self.stopping = True
            now = time.monotonic()
            self.due = {"kill_late": now + self.job.grace, "tell": now + TOLD_EVERY}
            if number == signal.SIGINT:
                self.due["ask_again"] = now + self.job.grace / 2

    def _ask_again(self) -> None:
        """A script may have Ctrl-C ignored."""
        for each in self.all:
            if each.pid and each.process.role == WORKER:
                self._send(each, signal.SIGTERM)

    def _tell(self) -> None:
        late = ", ".join(each.name for each in self.all if each.pid)
        say(f"waiting for {late} to end; Ctrl-C kills")
        self.due["tell"] = time.monotonic() + TOLD_EVERY

    def _kill_late(self) -> None:
        late = [each for each in self.all if each.pid]
        say(f"{', '.join(each.name for each in late)} did not end within {span(self.job.grace)} and is killed")
        self.failed += [] if self.failed else late[:1]
        self._kill()

    def _kill(self) -> None:
        self.killed = self.stopping = True
        for each in self.all:
            each.again_at = None
            if each.pid:
                each.asked = "SIGKILL"
                for kill in (os.killpg, os.kill):  # the group, or itself where it has moved to another
                    with contextlib.suppress(ProcessLookupError):
                        kill(each.pid, signal.SIGKILL)
