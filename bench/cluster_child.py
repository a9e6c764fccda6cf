"""One process of a measured job: a server or a trainer. Runs under Python 3.7 too, for paddlepaddle 1.8.5.

    cluster_child.py ROLE INDEX WORK ENDPOINTS TRAINERS STEPS HOW

A trainer prints one JSON line: when its first step had ended, and the time of all steps after the run-up.
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


def main():
    role, index, work, endpoints, trainers, steps, how = sys.argv[1:8]
    index, trainers, steps = int(index), int(trainers), int(steps)
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
        return
    program = job.get_trainer_program(wait_port=True) if how == "cached" else job.get_trainer_program()
    exe.run(fluid.default_startup_program())
    options = {"use_program_cache": True} if how == "cached" else {}
    feeds = [models_fluid.convert(batch) for batch in works.WORKS[work].data()]
    first = start = 0
    for step in range(RUN_UP + steps):
        if step == RUN_UP:
            start = time.time()
        exe.run(program, feed=feeds[step % len(feeds)], fetch_list=[loss], **options)
        first = first or time.time()
    seconds = time.time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"first": first, "born": BORN, "seconds": seconds, "ended": time.time(), "peak_mb": peak}))
    sys.stdout.flush()
    exe.close()


main()
