"""One process of a measured job: a server or a trainer. Runs under Python 3.7 too, for paddlepaddle 1.8.5.

    cluster_child.py ROLE INDEX WORK ENDPOINTS TRAINERS STEPS HOW [STRATEGY]

A STRATEGY of Fleet (async, half_async, geo) goes through it; without one DistributeTranspiler makes a sync job.
A trainer prints one JSON line: when its first step had ended, and the time of all steps after the run-up. With 0 steps
it trains until it is stopped and prints the time of a step now and then, and always of the first one after a pause.
"""

import json
import resource
import sys
import time

BORN = time.time()

import models_fluid  # noqa: E402
import paddle.fluid as fluid  # noqa: E402
import works  # noqa: E402

RUN_UP = 5
PAUSE = 0.02  # seconds


def params_mb(program):
    """Size of the parameters, which the servers share."""
    total = 0
    for var in program.all_parameters():
        size = 4
        for side in var.shape:
            size *= side
        total += size
    return total / 2.0**20


def train_on(run):
    """Steps until the process is stopped."""
    told = step = 0
    while True:
        run(step)
        step += 1
        if time.time() - told > PAUSE:
            told = time.time()
            print("%.6f" % told)
            sys.stdout.flush()


def by_fleet(role, index, work, endpoints, trainers, strategy):
    """The loss, what to run first and then, and what ends a trainer; a server serves here and ends."""
    from paddle.fluid.incubate.fleet.base import role_maker
    from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
    from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import StrategyFactory

    who = role_maker.Role.SERVER if role == "server" else role_maker.Role.WORKER
    servers = endpoints.split(",")
    fleet.init(role_maker.UserDefinedRoleMaker(current_id=index, role=who, worker_num=trainers, server_endpoints=servers))
    if strategy == "geo":
        made = StrategyFactory.create_geo_strategy(100)
    else:
        made = getattr(StrategyFactory, "create_%s_strategy" % strategy)()
    plain = fluid.optimizer.SGD
    fluid.optimizer.SGD = lambda **options: fleet.distributed_optimizer(plain(**options), made)  # that of the model
    loss = getattr(models_fluid, work)()
    if role == "server":
        fleet.init_server()
        fleet.run_server()
        sys.exit(0)
    fleet.init_worker()
    return loss, fleet.startup_program, fleet.main_program, fleet.stop_worker


def by_transpiler(role, index, work, endpoints, trainers, how):
    """The same for a sync job."""
    loss = getattr(models_fluid, work)()
    config = fluid.DistributeTranspilerConfig()
    config.wait_port = False
    job = fluid.DistributeTranspiler(config=config)
    job.transpile(index if role == "trainer" else 0, pservers=endpoints, trainers=trainers)
    exe = fluid.Executor(fluid.CPUPlace())
    if role == "server":
        endpoint = endpoints.split(",")[index]
        program, startup = job.get_pserver_programs(endpoint)
        exe.run(startup)
        exe.run(program)
        sys.exit(0)
    program = job.get_trainer_program(wait_port=True) if how == "cached" else job.get_trainer_program()
    return loss, fluid.default_startup_program(), program, None


def main():
    role, index, work, endpoints, trainers, steps, how = sys.argv[1:8]
    index, trainers, steps = int(index), int(trainers), int(steps)
    if len(sys.argv) > 8:
        loss, startup, program, stop = by_fleet(role, index, work, endpoints, trainers, sys.argv[8])
    else:
        loss, startup, program, stop = by_transpiler(role, index, work, endpoints, trainers, how)
    size = params_mb(program)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    options = {"use_program_cache": True} if how == "cached" else {}
    feeds = [models_fluid.convert(batch) for batch in works.WORKS[work].data()]
    first = start = 0

    def run(step):
        exe.run(program, feed=feeds[step % len(feeds)], fetch_list=[loss], **options)

    if not steps:
        train_on(run)
    for step in range(RUN_UP + steps):
        if step == RUN_UP:
            start = time.time()
        run(step)
        first = first or time.time()
    seconds = time.time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"first": first, "born": BORN, "seconds": seconds, "ended": time.time(), "peak_mb": peak,
                      "params_mb": size}))
    sys.stdout.flush()
    if stop is not None:
        stop()
    exe.close()


main()
