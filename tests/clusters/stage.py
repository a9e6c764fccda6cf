"""Runs the processes of a recipe over loopback, does to them what it says, and tells what went wrong."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
from cluster import Process, free_ports, give_back  # noqa: E402
from fault_proxy import FaultProxy, Faults  # noqa: E402

from .make_faults import ALL_ANEW, QUIET  # noqa: E402
from .nursery import Nursery  # noqa: E402

WORKER = Path(__file__).with_name("worker.py")
# Seconds without any news. Servers that were started again wait half of FLAGS_rpc_deadline, 90 s, for one that had ended.
DEADLINE = 120.0
LEFT = 20.0  # seconds in which all that a process has made ends behind it


class Wrong(Exception):
    """A job did something that it should not; `kind` is a word for it."""

    def __init__(self, kind: str, text: str):
        super().__init__(text)
        self.kind = kind


class Born(Process):
    """A process out of the nursery."""

    def __init__(self, nursery: Nursery, name: str, words: list[str], folder: Path, env: dict[str, str], fork: bool):
        self.name, self.path = name, folder / f"log-{name}-{time.monotonic_ns()}"
        self.process = nursery.start([str(WORKER), *words], {**os.environ, "OMP_NUM_THREADS": "1", **env}, str(self.path), fork)

    def output(self) -> str:
        return self.path.read_text(errors="replace") if self.path.exists() else ""

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.wait()

    def wait(self, deadline: float = 120) -> int:
        end = time.monotonic() + deadline
        while self.process.poll() is None:
            if time.monotonic() > end:
                raise Wrong("hang", f"{self.name} did not end within {deadline:.0f} s")
            time.sleep(0.002)
        return self.process.returncode

    def leaves_something(self) -> bool:
        """Are there processes that it has made?"""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, 0)
            return True
        return False


class Stage:
    """One job. All that it does is in its folder."""

    def __init__(self, nursery: Nursery, recipe: dict, folder: Path):
        self.nursery, self.recipe, self.folder = nursery, recipe, folder
        (folder / "recipe").write_text(json.dumps(recipe))
        (folder / "gates").touch()
        self.running: dict[str, Born] = {}
        self.ended: list[Born] = []
        self.ports: list[int] = []
        self.proxy: FaultProxy | None = None
        self.is_cleared = False
        self.lay(recipe["servers"])

    def lay(self, servers: int) -> None:
        """So many servers from now on; those that stay in number keep their places."""
        if servers > len(self.ports):
            self.ports += free_ports(servers - len(self.ports))
        self.endpoints = [f"127.0.0.1:{port}" for port in self.ports[:servers]]

    def start(self, name: str) -> None:
        role, _, index = name.partition("-")
        env = {key: value.replace("FOLDER", str(self.folder)) for key, value in self.recipe["env"].items()}
        if self.proxy and role == "trainer":
            env["PADDLE_PS_MAP"] = self.proxy.map
        words = [role, "--recipe", str(self.folder / "recipe"), "--folder", str(self.folder),
                 "--endpoints", ",".join(self.endpoints), "--index", index]
        self.running[name] = Born(self.nursery, name, words, self.folder, env, self.recipe["fork"])

    def put_away(self, name: str) -> Born:
        self.ended.append(self.running.pop(name))
        return self.ended[-1]

    def names(self, role: str) -> list[str]:
        return [name for name in self.running if name.startswith(role)]

    # ---- the way of a job ----

    def run(self) -> None:
        """All of it; raises Wrong."""
        try:
            with contextlib.ExitStack() as stack:
                if self.recipe["proxy"]:
                    words = self.recipe["proxy"]
                    faults = Faults(mean_bytes=words["mean_bytes"], stall_seconds=0.2)
                    self.proxy = stack.enter_context(FaultProxy(self.endpoints, words["seed"], faults, words["budget"]))
                for name in self.recipe["order"]:
                    self.start(name)
                for number, fault in enumerate(self.recipe["faults"]):
                    self.strike(number, fault)
                self.finish()
        except AssertionError as error:
            raise Wrong("hang", str(error)) from error
        finally:
            self.clear()

    def finish(self) -> None:
        """All that run end by themselves, and well."""
        others = self.folder / "others-done"
        last = f"trainer-{self.recipe['batches'].index(max(self.recipe['batches']))}"

        def is_over() -> bool:
            self.check_alive()
            rest = [self.running[name] for name in self.names("trainer") if name != last]
            if not others.exists() and all(process.process.poll() == 0 for process in rest):
                others.touch()
            return all(process.process.poll() == 0 for process in self.running.values())

        self.wait_for(is_over, "the job to end")
        for process in [*self.running.values(), *self.ended]:
            self.wait_for(lambda: not process.leaves_something(), f"what {process.name} has made to end", LEFT)  # noqa: B023

    def wait_for(self, is_so, what: str, deadline: float = 0) -> None:
        deadline = deadline or DEADLINE
        news, end = self.news(), time.monotonic() + deadline
        while not is_so():
            if time.monotonic() > end and news == (news := self.news()):
                raise Wrong("hang", f"waited {deadline:.0f} s for {what}, and nothing has moved")
            if time.monotonic() > end:
                end = time.monotonic() + deadline
            time.sleep(0.003)

    def news(self) -> list:
        """What changes while a job goes on, however slow the machine is. What processes say is no news: one that waits says so."""
        seen = sum(path.stat().st_size for path in self.folder.glob("seen-*"))
        return [seen, *((process.pid, process.process.poll()) for process in self.running.values())]

    def check_alive(self) -> None:
        for name, process in self.running.items():
            status = process.process.poll()
            if status:
                end = time.monotonic() + 1
                while time.monotonic() < end and any(each.process.poll() is None for each in self.running.values()):
                    time.sleep(0.01)  # what the others say of it
                raise Wrong("crash" if status < 0 else "status", f"{name} ended with {status}")

    def clear(self) -> None:
        """All are gone. What they said stays."""
        if self.is_cleared:
            return
        self.is_cleared = True
        for process in [*self.running.values(), *self.ended]:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.process.send_signal(signal.SIGCONT)
            process.kill()
        give_back(self.ports)

    def outputs(self) -> str:
        """What all processes said, the end of it."""
        found = []
        for process in [*self.ended, *self.running.values()]:
            lines = process.output().splitlines()
            cut = ["..."] if len(lines) > 40 else []
            found += [f"--- {process.name} (pid {process.pid}, status {process.process.returncode})", *cut, *lines[-40:]]
        return "\n".join(found)

    # ---- faults ----

    def done_by(self, name: str) -> int:
        """The step that a trainer will do next, 0 before it has done any."""
        lines = b"".join(path.read_bytes() for path in self.folder.glob(f"seen-{name}-{self.running[name].pid}")).splitlines()
        return int(lines[-1].split()[0]) + 1 if lines else 0

    def is_due(self, fault: dict) -> bool:
        self.check_alive()
        trainers = [name for name in self.names("trainer") if self.running[name].process.poll() is None]
        if fault["kind"] not in QUIET:
            return fault["at"] == 0 or any(self.done_by(name) >= fault["at"] for name in trainers)
        waiting = []
        for name in trainers:
            path = self.folder / f"waits-{name.partition('-')[2]}-{self.running[name].pid}"
            waiting.append(path.exists() and path.read_text() == str(fault["gate"]))
        return bool(waiting) and all(waiting)

    def strike(self, number: int, fault: dict) -> None:
        self.wait_for(lambda: self.is_due(fault), f"step {fault['at']}")
        time.sleep(fault["ms"] / 1000)
        kind = fault["kind"]
        if kind in ALL_ANEW:
            self.anew(number, fault)
        else:
            who = [name for name in fault["who"] if name in self.running and self.running[name].process.poll() is None]
            if kind == "stop":
                self.stop(who, fault["for"] / 1000)
            else:
                self.replace(who, signal.SIGTERM if kind.startswith("term") else signal.SIGKILL)
                if "again" in fault:
                    time.sleep(fault["again"] / 1000)
                    self.replace([name for name in who if self.running[name].process.poll() is None], signal.SIGKILL)
        if self.recipe["mode"] == "sums":  # trainers that need not wait for others could be done, and the job with them
            self.wait_for(self.have_joined, "trainers that were started again")
        self.open_gate(number, b"g")

    def have_joined(self) -> bool:
        self.check_alive()
        return all("steps done" in self.running[name].output() for name in self.names("trainer"))

    def open_gate(self, number: int, way: bytes) -> None:
        path = self.folder / "gates"
        if path.stat().st_size == number:
            with path.open("ab") as file:
                file.write(way)

    def stop(self, who: list[str], seconds: float) -> None:
        for name in who:
            self.running[name].process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        for name in who:
            self.running[name].process.send_signal(signal.SIGCONT)

    def replace(self, who: list[str], number: int) -> None:
        """Ends processes by a signal, and starts them again with the same command."""
        self.end(who, number)
        for name in who:
            self.start(name)

    def end(self, who: list[str], number: int) -> None:
        for name in who:
            self.running[name].process.send_signal(number)
        for name in who:
            process = self.put_away(name)
            status = process.wait(DEADLINE)
            # A trainer may have come to its end before; a server that does not serve yet ends as any script does.
            serves = name.startswith("server") and "Server listening" in process.output()
            expected = {0} if number == signal.SIGTERM and serves else {0, -number}
            if status not in expected:
                raise Wrong("crash" if status < 0 else "status", f"{name}, asked to end by {signal.Signals(number).name}: {status}")

    def anew(self, number: int, fault: dict) -> None:
        """The whole job ends, in one way or another, and all of it is started again."""
        if fault["kind"] == "leave":
            self.open_gate(number, b"x")

            def have_left() -> bool:
                self.check_alive()
                return all(process.process.poll() == 0 for process in self.running.values())

            self.wait_for(have_left, "the job to end when its trainers have left")
            for name in list(self.running):
                self.put_away(name)
        else:
            way = signal.SIGKILL if fault["kind"] == "kill all" else signal.SIGTERM
            self.end([*self.names("server"), *self.names("trainer")], way)
        for path in self.folder.glob("held-*"):
            path.unlink()
        self.recipe = {**self.recipe, "config": self.recipe["config"] | fault.get("config", {}),
                       "env": self.recipe["env"] | fault.get("env", {})}
        (self.folder / "recipe").write_text(json.dumps(self.recipe))
        self.lay(fault.get("servers", len(self.endpoints)))
        for i in range(len(self.endpoints)):
            self.start(f"server-{i}")
        for i in range(self.recipe["trainers"]):
            self.start(f"trainer-{i}")
