"""A short run that tells whether the installation works."""

__all__ = ["run_check"]


def _train_once(parallel: bool) -> None:
    import numpy as np

    from paddle.fluid import backward, compiler, core, executor, layers, optimizer, unique_name
    from paddle.fluid.framework import Program, program_guard
    from paddle.fluid.initializer import Constant
    from paddle.fluid.param_attr import ParamAttr

    main, startup = Program(), Program()
    data = np.array([[1.0, 2.0], [3.0, 4.0]], dtype="float32")
    with executor.scope_guard(core.Scope()), program_guard(main, startup), unique_name.guard():
        x = layers.data(name="inp", shape=[2, 2], append_batch_size=False)
        out = layers.fc(x, size=3, param_attr=ParamAttr(initializer=Constant(0.1)), bias_attr=False)
        exe = executor.Executor(core.CPUPlace())
        if parallel:
            loss = layers.mean(out)
            optimizer.SGD(learning_rate=0.01).minimize(loss)
            program = compiler.CompiledProgram(main).with_data_parallel(loss_name=loss.name)
            fetches, wanted = [loss], 0.5
        else:
            loss = layers.reduce_sum(out)
            grads = backward.append_backward(loss)
            program = main
            fetches, wanted = [loss, grads[0][1]], 3.0
        exe.run(startup)
        result = exe.run(program, feed={x.name: data}, fetch_list=fetches)
    found = float(np.asarray(result[0]).reshape(-1)[0])
    if abs(found - wanted) > 1e-5:
        raise RuntimeError(f"the check program gave {found}, not {wanted}. Install the package again.")


def run_check() -> None:
    """Builds, trains and checks a tiny model; raises when something is wrong."""
    print("Checking paddle.fluid ...")
    _train_once(parallel=False)
    print("A program with gradients runs.")
    _train_once(parallel=True)
    print("A training step of a compiled program runs. paddle.fluid is installed and works.")
