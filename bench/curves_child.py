"""One process of bench/curves.py: what a Program of so many layers costs, from its layers to a step on it.

    curves_child.py LAYERS OPTIMIZER WIDTH

Prints one JSON line: CPU seconds of each work, in the order in which they were done.
"""

import json
import os
import sys
import tempfile
import time

import numpy as np
import paddle.fluid as fluid

SERVERS = ["127.0.0.1:6174", "127.0.0.1:6175"]
BATCH = 4
STEP_S = 0.3  # at least so long are steps measured


def main():
    layers, optimizer, width = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    took = {}

    def timed(name, call, *args, **more):
        start = time.process_time()
        result = call(*args, **more)
        took[name] = time.process_time() - start
        return result

    def build():
        x = fluid.layers.data("x", [width])
        for _ in range(layers):
            x = fluid.layers.fc(x, width, act="tanh")
        return x, fluid.layers.mean(x)

    def steps(program, loss):
        feed, count, start = {"x": np.ones((BATCH, width), "float32")}, 0, time.process_time()
        while count < 3 or time.process_time() - start < STEP_S:
            exe.run(program, feed=feed, fetch_list=[loss])
            count += 1
        return (time.process_time() - start) / count

    def first(program, loss):
        exe.run(program, feed={"x": np.ones((BATCH, width), "float32")}, fetch_list=[loss])

    main_program, startup = fluid.default_main_program(), fluid.default_startup_program()
    exe = fluid.Executor(fluid.CPUPlace())
    out, loss = timed("layers", build)
    rule = getattr(fluid.optimizer, optimizer)(0.001)
    pairs = timed("append_backward", rule.backward, loss)
    timed("optimizer ops", rule.apply_gradients, pairs)
    timed("clone", main_program.clone)
    timed("clone(for_test)", main_program.clone, for_test=True)
    timed("to_string", main_program.to_string)
    timed("to_string, details", main_program.to_string, True, True)
    written = timed("to bytes", main_program.desc.serialize_to_string)
    timed("from bytes", fluid.Program.parse_from_string, written)
    timed("startup's run", exe.run, startup)
    timed("first run", first, main_program, loss)
    took["a step"] = steps(main_program, loss)
    both = fluid.CompiledProgram(main_program).with_data_parallel(loss_name=loss.name, places=[fluid.CPUPlace()] * 2)
    timed("2 places: first run", first, both, loss)
    took["2 places: a step"] = steps(both, loss)
    with tempfile.TemporaryDirectory() as folder:
        timed("save_inference_model", fluid.io.save_inference_model, os.path.join(folder, "model"), ["x"], [out], exe)
        timed("load_inference_model", fluid.io.load_inference_model, os.path.join(folder, "model"), exe)
        timed("save_persistables", fluid.io.save_persistables, exe, os.path.join(folder, "all"), main_program, "all")
        timed("load_persistables", fluid.io.load_persistables, exe, os.path.join(folder, "all"), main_program, "all")
    config = fluid.DistributeTranspilerConfig()
    config.wait_port = False
    job = fluid.DistributeTranspiler(config)
    timed("transpile", job.transpile, 0, pservers=",".join(SERVERS), trainers=2)
    timed("get_pserver_program", job.get_pserver_program, SERVERS[0])
    timed("get_startup_program", job.get_startup_program, SERVERS[0])
    print(json.dumps(took))


main()
