"""A trainer fetches in each step what one process would, in odd ways of scripts (jobs/like_one.py): names like those that parts of
gradients have, rates by the name of a copy, several places, pruned runs. One trainer: bit by bit."""

import sys

import pytest
from cluster import JOBS, Job, alone

sys.path.insert(0, str(JOBS))
import like_one  # noqa: E402

import paddle.fluid as fluid  # noqa: E402
from paddle.fluid import layers  # noqa: E402


def steps_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("step ")]


def of_job(servers: int, env: dict, *options: str) -> list[str]:
    with Job(servers, 1, "like_one.py", env=env) as job:
        job.start_all(*options)
        job.end(60)
        return steps_of(job.processes[-1].output())


@pytest.mark.parametrize("case", [*like_one.NAMES, *like_one.OTHERS])
def test_each_step_is_that_of_one_process(case, tmp_path):
    env = {"FLAGS_ps_dir": str(tmp_path / "ps"), "FLAGS_ps_reconnect": "500"}
    want = steps_of(alone("like_one.py", "--case", case, "--until", "5"))
    assert len(want) == 5
    assert of_job(2, env, "--case", case, "--until", "3") == want[:3]
    assert of_job(1, env, "--case", case, "--until", "5") == want[3:], "taken up by another number of servers"


def momentum():
    loss = layers.mean(layers.fc(layers.data("x", [4]), 1, param_attr=fluid.ParamAttr(name="w"), bias_attr=False))
    fluid.optimizer.Momentum(0.1, 0.9).minimize(loss)
    return loss


def transpile():
    fluid.DistributeTranspiler().transpile(0, pservers="127.0.0.1:6174", trainers=1)


def test_a_state_that_the_script_reads_is_refused_by_name(fresh):
    momentum()
    layers.reduce_sum(fluid.default_main_program().global_block().var("w_velocity_0"))
    with pytest.raises(ValueError, match="op 'reduce_sum' of the script reads 'w_velocity_0', .*: servers compute it"):
        transpile()


@pytest.mark.parametrize("between", [True, False])
def test_a_parameter_that_is_read_between_two_updates_is_told_of(fresh, capfd, between):
    momentum()
    if between:
        factor = layers.reduce_sum(fluid.default_main_program().global_block().var("w"))
        factor.stop_gradient = True
    other = layers.fc(layers.data("y", [4]), 1, param_attr=fluid.ParamAttr(name="v"), bias_attr=False)
    loss = layers.mean(layers.elementwise_mul(other, factor) if between else other)
    fluid.optimizer.SGD(0.1).minimize(loss, parameter_list=["v"])
    layers.reduce_sum(fluid.default_main_program().global_block().var("w"))  # behind the last: as in one process
    transpile()
    said = "op 'reduce_sum' of the script reads 'w' behind its update and before another one" in capfd.readouterr().err
    assert said == between


@pytest.mark.parametrize("name", ["w@GRAD.part", "prefetch_compress_in_tmp_0"])
def test_names_that_servers_make_are_refused(fresh, name):
    ids = layers.data("ids", [1], dtype="int64")
    table = layers.embedding(ids, [10, 4], is_sparse=True, is_distributed=True, param_attr=fluid.ParamAttr(name="table"))
    out = layers.fc(table, 4, param_attr=fluid.ParamAttr(name="w"), bias_attr=fluid.ParamAttr(name=name))
    fluid.clip.set_gradient_clip(fluid.clip.GradientClipByValue(1.0), param_list=["w"])
    fluid.optimizer.SGD(0.1).minimize(layers.mean(out))
    made = {name for op in fluid.default_main_program().global_block().ops if op._is_optimize_op() for name in op.output_arg_names}
    if name.endswith(".part"):
        assert "w@GRAD" not in made  # the clip writes a gradient of its own
        clip = min(each for each in made if each.startswith("clip"))
        fluid.default_main_program().global_block()._rename_var(name, f"{clip}.part")
    with pytest.raises(ValueError, match="has the name that a part of .* gets on its way to servers"):
        transpile()


def test_steps_done_before_the_startup_program_is_an_error(fresh):
    momentum()
    job = fluid.DistributeTranspiler()
    job.transpile(0, pservers="127.0.0.1:6174", trainers=1)
    with pytest.raises(RuntimeError, match="run the startup Program first"):
        job.steps_done()


@pytest.mark.parametrize("named", [0, 1, 2])
def test_updates_of_some_parameters_only_are_refused(fresh, named):
    outs = [layers.fc(layers.data(name, [4]), 1, param_attr=fluid.ParamAttr(name=f"w_{name}"), bias_attr=False) for name in "xy"]
    loss = layers.mean(layers.sums(outs))
    made = [fluid.optimizer.SGD(0.1).minimize(loss, parameter_list=[f"w_{name}"]) for name in "xy"]
    job = fluid.DistributeTranspiler()
    job.transpile(0, pservers="127.0.0.1:6174", trainers=1)
    exe = fluid.Executor()
    feed = {name: [[1.0, 2.0, 3.0, 4.0]] for name in "xy"}
    # Without servers: what is not refused fails for want of a value.
    error, match = (ValueError, "not that of 'w_y': servers do all") if named == 1 else (fluid.core.EnforceNotMet, "w_x")
    with pytest.raises(error, match=match):
        exe.run(job.get_trainer_program(), feed=feed, fetch_list=[loss, *made[:named]])


@pytest.mark.parametrize("how", ["cond", "Switch", "assign"])
def test_updates_that_servers_cannot_do_are_refused(fresh, how):
    momentum()
    other = layers.mean(layers.fc(layers.data("y", [4]), 1, param_attr=fluid.ParamAttr(name="v"), bias_attr=False))
    rule = fluid.optimizer.SGD(0.1)
    grads = rule.backward(other, parameter_list=["v"])
    is_so = layers.less_than(layers.zeros([1], "float32"), layers.ones([1], "float32"))

    def update():
        rule.apply_gradients(grads)

    if how == "cond":
        layers.cond(is_so, update, None)
    elif how == "Switch":
        with layers.Switch() as switch, switch.case(is_so):
            update()
    else:
        (param, grad), = grads
        layers.assign(layers.elementwise_sub(param, layers.scale(grad, 0.1)), param)
    match = "changes the parameter 'v' by a gradient" if how == "assign" else "the update of 'v' stands in a branch or a loop"
    with pytest.raises(ValueError, match=match):
        transpile()


def test_a_parameter_that_no_gradient_changes_is_fine(fresh):
    momentum()
    block = fluid.default_main_program().global_block()
    target = layers.create_parameter([4, 1], "float32", name="target")
    layers.assign(layers.elementwise_add(layers.scale(target, 0.9), layers.scale(block.var("w"), 0.1)), target)
    transpile()


@pytest.mark.parametrize("how", [["--places", "1"], ["--places", "2"], ["--from-files"]], ids=["run", "places", "files"])
def test_a_trainer_that_closed_and_trains_on_begins_with_the_parameters_of_now(tmp_path, how):
    """Not with those that it had when it left: the others have trained since."""
    with Job(2, 2, "returns.py") as job:
        job.start_all("--folder", str(tmp_path), *how)
        job.end(60)
        returned, stayed = ([line.split()[2] for line in steps_of(each.output())] for each in job.processes[-2:])
    assert returned[:2] == stayed[:2] and len(returned) == 4
    first = stayed.index(returned[2])
    assert first >= 6
    assert stayed.index(returned[3]) - first in (1, 2)  # the others may have been in a step when it asked
