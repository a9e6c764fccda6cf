"""A job whose trainer reads from a py_reader, on CPU_NUM places: reading.py local | server ENDPOINT | trainer ENDPOINT."""

import sys

import numpy as np

import paddle.fluid as fluid


def batches():
    rng = np.random.RandomState(0)
    for _ in range(8):
        x = rng.rand(6, 4).astype("float32")
        yield x, x.sum(1, keepdims=True)


role, endpoint = sys.argv[1], sys.argv[-1]
fluid.default_startup_program().random_seed = 3
reader = fluid.layers.py_reader(8, [(-1, 4), (-1, 1)], ["float32", "float32"], name="train")
x, y = fluid.layers.read_file(reader)
loss = fluid.layers.reduce_mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
fluid.optimizer.Adam(0.1).minimize(loss)
exe = fluid.Executor(fluid.CPUPlace())
main = fluid.default_main_program()
if role != "local":
    transpiler = fluid.DistributeTranspiler()
    transpiler.transpile(0, pservers=endpoint, trainers=1)
    if role == "server":
        main = transpiler.get_pserver_program(endpoint)
        exe.run(transpiler.get_startup_program(endpoint, main))
        exe.run(main)
    main = transpiler.get_trainer_program()
exe.run(fluid.default_startup_program())
reader.decorate_tensor_provider(batches)
program = fluid.CompiledProgram(main).with_data_parallel(loss_name=loss.name)
for _ in range(3):
    reader.start()
    try:
        while True:
            print(*(value.hex() for value in exe.run(program, fetch_list=[loss.name])[0].tolist()))
    except fluid.core.EOFException:
        reader.reset()
exe.close()
