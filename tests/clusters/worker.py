"""One process of a random job: `single`, `server` or `trainer`. Builds what the recipe says, and writes what it saw into a folder.

    seen-WHO-PID   a line for each step, as it ends: its number, the loss, what else was fetched
    saved-WHO.*    what fluid.save writes at the end
    held-SERVER    a server's variables when it has served
    refused        why transpile does not take the script
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import sys
import time

import numpy as np

import paddle.fluid as fluid
from paddle.fluid.communicator import DistributedMode

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from clusters.recipe import joined, present  # noqa: E402

TENSOR = fluid.core.VarDesc.VarType.LOD_TENSOR


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("role", choices=["single", "server", "trainer"])
    parser.add_argument("--recipe", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--endpoints", default="127.0.0.1:6174,127.0.0.1:6175")
    parser.add_argument("--index", type=int, default=0)
    parser.add_argument("--turned", type=int, default=0, help="the number of an order of rows, for one process")
    return parser.parse_args()


class Run:
    """The script of a recipe, built."""

    def __init__(self, args: argparse.Namespace):
        self.args, self.recipe = args, json.load(open(args.recipe))
        self.who = args.role if args.role == "single" else f"{args.role}-{args.index}"
        for program in (fluid.default_startup_program(), fluid.default_main_program()):
            program.random_seed = self.recipe["seed"] % 1000 + 1
        names = {"fluid": fluid, "L": fluid.layers, "np": np, "fetches": []}
        exec(compile("\n".join(self.recipe["script"]), "recipe", "exec"), names)
        self.loss, self.fetches = names["loss"], names["fetches"]
        self.test = names.get("test")
        self.exe = fluid.Executor(fluid.CPUPlace())

    def feed(self, trainers: list[int], step: int) -> dict:
        found = {}
        for name in self.recipe["feeds"]:
            array, lengths = joined(self.recipe, name, trainers, step, self.args.turned)
            found[name] = array if lengths is None else fluid.create_lod_tensor(array, [lengths], fluid.CPUPlace())
        return found

    def step(self, program, trainers: list[int], step: int, seen) -> None:
        """Trains a batch, and notes what it fetched."""
        found = self.exe.run(program, feed=self.feed(trainers, step), fetch_list=[self.loss, *self.fetches])
        if self.test is not None and step % 3 == 1:
            found += self.exe.run(self.test, feed=self.feed([0], step + 10000), fetch_list=[self.loss.name])
        found[0] = np.mean(found[0])  # of all places
        numbers = np.concatenate([np.asarray(each, "float64").ravel() for each in found])
        seen.write(f"{step} {' '.join(map(repr, numbers.tolist()))}\n")

    def seen(self):
        return open(f"{self.args.folder}/seen-{self.who}-{os.getpid()}", "w", buffering=1)

    def save(self, program) -> None:
        fluid.save(program, f"{self.args.folder}/saved-{self.who}")

    # ---- roles ----

    def single(self) -> None:
        program, recipe = fluid.default_main_program(), self.recipe
        self.exe.run(fluid.default_startup_program())
        with self.seen() as seen:
            if recipe["mode"] == "sums":  # in any order
                for trainer, batches in enumerate(recipe["batches"]):
                    for step in range(batches):
                        self.exe.run(program, feed=self.feed([trainer], step))
            else:
                for step in range(max(recipe["batches"])):
                    self.step(program, present(recipe, step), step, seen)
        self.save(program)
        try:
            self.transpile()
        except (ValueError, TypeError, RuntimeError, NotImplementedError) as error:
            with open(f"{self.args.folder}/refused", "w") as told:
                told.write(str(error))

    def transpile(self) -> fluid.DistributeTranspiler:
        recipe, config = self.recipe, fluid.DistributeTranspilerConfig()
        for name, value in recipe["config"].items():
            setattr(config, name, getattr(fluid.transpiler, value) if name == "split_method" and value else value)
        t = fluid.DistributeTranspiler(config=config)
        t.transpile(self.args.index if self.args.role == "trainer" else 0, pservers=self.args.endpoints,
                    trainers=recipe["trainers"], sync_mode=recipe["mode"] == "sync")
        return t

    def server(self) -> None:
        main, startup = self.transpile().get_pserver_programs(self.args.endpoints.split(",")[self.args.index])
        self.exe.run(startup)
        try:
            self.exe.run(main)
        finally:
            held = {}
            for var in main.list_vars():
                if var.persistable and var.type == TENSOR and "@GRAD" not in var.name:
                    tensor = fluid.global_scope().find_var(var.name)
                    if tensor is not None and tensor.get_tensor()._is_initialized():
                        held[var.name] = np.array(tensor.get_tensor())
            with open(f"{self.args.folder}/held-{self.args.index}", "wb") as file:
                pickle.dump(held, file)

    def trainer(self) -> None:
        t, recipe, me = self.transpile(), self.recipe, self.args.index
        comm = None
        if recipe.get("communicator"):
            comm = fluid.communicator.Communicator(t.get_trainer_program(), DistributedMode.ASYNC, envs=recipe["communicator"])
            comm.start()
        self.exe.run(fluid.default_startup_program())
        done = t.steps_done() if recipe["resumes"] else 0
        print("steps done:", done, flush=True)
        program = t.get_trainer_program()
        if recipe["places"]:
            places = fluid.cpu_places(recipe["places"])
            program = fluid.CompiledProgram(program).with_data_parallel(loss_name=self.loss.name, places=places)
        gates = [fault["gate"] for fault in recipe["faults"]]
        with self.seen() as seen:
            for step in range(done, recipe["batches"][me]):
                if self.is_asked_to_leave(sum(gate <= step for gate in gates), step):
                    return
                self.step(program, [me], step, seen)
        if comm is not None:
            comm.stop()
        if me == saver(recipe):
            if recipe["mode"] == "sums":
                wait_for(f"{self.args.folder}/others-done")
            self.save(t.get_trainer_program())

    def is_asked_to_leave(self, gates: int, step: int) -> bool:
        """Waits until so many faults have been, or one of them asks to leave: each adds a byte to a file."""
        path = f"{self.args.folder}/gates"
        before = found = open(path, "rb").read()
        if len(before) >= gates:
            return False
        open(f"{self.args.folder}/waits-{self.args.index}-{os.getpid()}", "w").write(str(step))
        while len(found) < gates and b"x" not in found[len(before):]:
            time.sleep(0.002)
            found = open(path, "rb").read()
        return b"x" in found[len(before):]


def saver(recipe: dict) -> int:
    return recipe["batches"].index(max(recipe["batches"]))


def wait_for(path: str) -> None:
    while not os.path.exists(path):
        time.sleep(0.005)


def main() -> None:
    args = parse()
    run = Run(args)
    {"single": run.single, "server": run.server, "trainer": run.trainer}[args.role]()


if __name__ == "__main__":
    main()
