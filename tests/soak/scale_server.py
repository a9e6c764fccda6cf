"""One server of a job with a small parameter on each of its servers: python scale_server.py ENDPOINTS ENDPOINT TRAINERS."""

import sys

import paddle.fluid as fluid

SIZE = 8


def main() -> None:
    endpoints, endpoint, trainers = sys.argv[1:]
    x = fluid.layers.data(name="x", shape=[SIZE], dtype="float32")
    for i in range(len(endpoints.split(","))):
        x = fluid.layers.fc(input=x, size=SIZE, bias_attr=False, param_attr=fluid.ParamAttr(name=f"w{i}"))
    fluid.optimizer.SGD(learning_rate=1.0).minimize(fluid.layers.mean(x))
    config = fluid.DistributeTranspilerConfig()
    config.slice_var_up = False
    t = fluid.DistributeTranspiler(config=config)
    t.transpile(0, pservers=endpoints, trainers=int(trainers))
    exe = fluid.Executor(fluid.CPUPlace())
    program, startup = t.get_pserver_programs(endpoint)
    exe.run(startup)
    exe.run(program)


if __name__ == "__main__":
    main()
