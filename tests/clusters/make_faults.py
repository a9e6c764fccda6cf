"""Random settings of a job, and faults after which its result is that of one process all the same (docs/DISTRIBUTED.md):

    stop            one process stands still for a moment
    kill servers    kill -9 of some or all, and the same command again: with a log
    term servers    SIGTERM to some or all, which keep a snapshot, and the same command again
    kill trainer    where the others wait for it, or need not (sums); it goes on behind steps_done()
    kill both       a server and a trainer at once
    kill all        the whole job, and all of it again: where servers that were killed within a step are not a step apart
    term all        SIGTERM to all of the job
    quiet term all  the same between two steps, then perhaps with other servers, slices or settings
    leave           the trainers end well, and with them the job; it goes on in the same ways

A fault comes when a trainer has done `at` steps; no trainer begins step `gate` before it has come. Connections may be cut beside.
"""

from __future__ import annotations

import random

OTHER_SERVERS = ("quiet term all", "leave")
ALL_ANEW = ("kill all", "term all", *OTHER_SERVERS)
QUIET = OTHER_SERVERS
TRAINERS_DIE = {"kill trainer", "kill both", "kill all", "term all", "quiet term all"}
# What may be another setting when a job goes on.
CHANGES = {"FLAGS_ps_loops": ("1", "2", "3"), "FLAGS_ps_log": ("", "write", "fsync"), "FLAGS_ps_snapshot_steps": ("0", "9"),
           "PADDLE_PS_SECRET": ("another of sixteen characters",), "PADDLE_PS_TRANSPORT": ("auto", "tcp")}


def settings(rng: random.Random, mode: str, is_hit: bool) -> dict[str, str]:
    """The environment of a job."""
    env = {}

    def maybe(share: float, name: str, *values: str) -> None:
        if rng.random() < share:
            env[name] = rng.choice(values)

    maybe(0.6, "FLAGS_ps_loops", "1", "2", "3")
    maybe(0.5, "PADDLE_PS_TRANSPORT", "tcp", "auto")
    maybe(0.3, "PADDLE_PS_SECRET", "of sixteen characters or more")
    maybe(0.2, "FLAGS_ps_spin", "0", "50")
    maybe(0.1, "FLAGS_fuse_ops", "0")
    maybe(0.1, "FLAGS_check_nan_inf", "1")
    maybe(0.1, "FLAGS_share_memory", "0")
    maybe(0.1, "PADDLE_PS_RING", "65536")
    if mode != "async":
        maybe(0.75, "FLAGS_ps_on_trainer_loss", "fail", "shrink", "wait", "wait")
    if rng.random() < (0.9 if is_hit else 0.3):
        env["FLAGS_ps_dir"] = "FOLDER/ps"
        maybe(0.75, "FLAGS_ps_log", "write", "write", "fsync")
        maybe(0.5, "FLAGS_ps_snapshot_steps", "1", "7", "40")
        maybe(0.1, "FLAGS_ps_keep", "1", "3")
    return env


def policy(recipe: dict) -> str:
    return recipe["env"].get("FLAGS_ps_on_trainer_loss") or ("fail" if recipe["mode"] == "sync" else "shrink")


def allowed(recipe: dict) -> list[str]:
    """The faults that a job with these settings survives with the right numbers."""
    env, what = recipe["env"], policy(recipe)
    has_dir, has_log = "FLAGS_ps_dir" in env, bool(env.get("FLAGS_ps_log"))
    sums = recipe["mode"] == "sums"
    kinds = ["stop"]
    if has_dir:
        kinds += ["term servers"]
    if has_log:
        kinds += ["kill servers"] * 3
    if recipe["mode"] == "async":
        return kinds
    # Servers, or loops of one, that a trainer or all were cut off from within a step are a step apart, but where they agree on each
    # step first: those of two trainers or more.
    is_one = recipe["servers"] == 1 and env.get("FLAGS_ps_loops") == "1"
    if sums or (what == "wait" and (is_one or recipe["trainers"] > 1)):
        kinds += ["kill trainer"] * 2 + (["kill both"] * 2 if has_log else [])
    if has_dir and (what != "shrink" or sums):
        kinds += ["quiet term all"]
    if has_dir:
        kinds += ["leave"]
    if has_log and (sums or (is_one and what == "fail") or (what == "wait" and recipe["trainers"] > 1)):
        kinds += ["kill all"] * 2 + ["term all"]
    return kinds


def fault(rng: random.Random, recipe: dict, kind: str, servers: int, at: int) -> dict:
    quiet = kind in QUIET
    at = max(at, 1) if kind.startswith("term") else at  # before it serves, SIGTERM ends a server like any process
    found = {"kind": kind, "at": at, "gate": at if quiet else at + rng.randint(5, 60), "ms": round(rng.expovariate(1 / 8), 1)}
    some = sorted(rng.sample(range(servers), rng.randint(1, servers)))
    trainer = rng.randrange(recipe["trainers"])
    if kind == "stop":
        found["who"] = [rng.choice([f"server-{some[0]}", f"trainer-{trainer}"])]
        found["for"] = rng.choice([20, 100, 300])
    elif kind in ("kill servers", "term servers"):
        found["who"] = [f"server-{i}" for i in some]
    elif kind == "kill trainer":
        found["who"] = [f"trainer-{trainer}"]
    elif kind == "kill both":
        found["who"] = [f"server-{i}" for i in some] + [f"trainer-{trainer}"]
    if kind.startswith("kill") and kind != "kill all" and rng.random() < 0.2:
        found["again"] = rng.choice([5, 60, 150, 300])  # milliseconds after the start: while it takes up its files
    if kind in OTHER_SERVERS:
        found["servers"] = rng.choice([servers, rng.randint(1, 3)])
        if rng.random() < 0.4:  # parameters lie otherwise
            found["config"] = {"slice_var_up": rng.random() < 0.5, "min_block_size": rng.choice([8192, 12000])}
        if rng.random() < 0.4:
            name = rng.choice(sorted(CHANGES))
            found["env"] = {name: rng.choice(CHANGES[name])}
    return found


def are_new(recipe: dict) -> bool:
    """Does a fault put new processes in the place of trainers?"""
    return any(each["kind"] in ("kill trainer", "kill both", *ALL_ANEW) for each in recipe["faults"])


def draw(rng: random.Random, recipe: dict, n: int) -> None:
    """Adds faults, and what goes with them."""
    env, servers, at = recipe["env"], recipe["servers"], rng.choice([0, 0, rng.randint(1, 60)])
    now = dict(env)
    for _ in range(n):
        kind = rng.choice(allowed({**recipe, "servers": servers, "env": now}))
        made = fault(rng, recipe, kind, servers, at)
        recipe["faults"].append(made)
        now = now | made.get("env", {})
        servers, at = made.get("servers", servers), made["gate"] + rng.randint(0, 40)
    recipe["resumes"] = are_new(recipe) or rng.random() < 0.5
    if are_new(recipe):
        # For so long a place is kept for a process that was killed. Without the only trainer a job is over.
        env["FLAGS_ps_reconnect"] = "500" if recipe["trainers"] > 1 else "5000"
    else:
        env["FLAGS_ps_reconnect"] = "20000"
        if rng.random() < 0.3:
            env["PADDLE_PS_TRANSPORT"] = "tcp"
            recipe["proxy"] = {"seed": rng.randrange(1000), "mean_bytes": rng.choice([2000, 15000]), "budget": rng.randint(2, 8)}
    if policy(recipe) == "fail" or (policy(recipe) == "shrink" and recipe["mode"] == "sync"):
        env["FLAGS_ps_reconnect"] = "20000"  # nobody may be given up, however slow the machine is
    steps = max(each["gate"] for each in recipe["faults"]) + rng.randint(3, 30)
    uneven = rng.random() < 0.2
    recipe["batches"] = [rng.randint(1, steps) if uneven else steps for _ in range(recipe["trainers"])]
    recipe["batches"][rng.randrange(recipe["trainers"])] = steps
