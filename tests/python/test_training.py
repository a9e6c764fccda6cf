"""Whole trainings as a user runs them: real data, a loss that falls, files that another process reads."""
import os
import subprocess
import sys

import pytest

DATA = os.path.join(os.path.dirname(__file__), os.pardir, "data")
EXAMPLES = os.path.join(os.path.dirname(__file__), os.pardir, os.pardir, "examples")


def run_script(text, folder, *args):
    env = dict(os.environ, PADDLE_DATASET_HOME=os.path.abspath(DATA))
    return subprocess.run([sys.executable, "-c", text, *args], cwd=folder, env=env, capture_output=True, text=True,
                          timeout=300)


def test_the_documented_fit_a_line_script_runs_unchanged(tmp_path):
    with open(os.path.join(EXAMPLES, "fit_a_line.py")) as f:
        done = run_script(f.read(), tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(os.listdir(tmp_path / "fit_a_line.model")) == ["fc_0.b_0", "fc_0.w_0", "learning_rate_0"]


FIT = '''
import sys
import numpy as np
import paddle
import paddle.fluid as fluid
fluid.default_startup_program().random_seed = 7
x = fluid.layers.data(name='x', shape=[13], dtype='float32')
y = fluid.layers.data(name='y', shape=[1], dtype='float32')
predict = fluid.layers.fc(input=x, size=1)
loss = fluid.layers.mean(fluid.layers.square_error_cost(input=predict, label=y))
test = fluid.default_main_program().clone(for_test=True)
fluid.optimizer.SGD(learning_rate=0.01).minimize(loss)
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
feeder = fluid.DataFeeder(place=fluid.CPUPlace(), feed_list=[x, y])
reader = paddle.batch(paddle.reader.shuffle(paddle.dataset.uci_housing.train(), 500), 20)
for i in range(100):
    for batch in reader():
        exe.run(feed=feeder.feed(batch), fetch_list=[loss])
rows = list(paddle.dataset.uci_housing.test()())
mse, p = exe.run(test, feed=feeder.feed(rows), fetch_list=[loss, predict])
fluid.io.save_inference_model(sys.argv[1], ['x'], [predict], exe)
np.save(sys.argv[1] + '/predictions.npy', p)
print(float(mse[0]))
'''

LOAD = '''
import sys
import numpy as np
import paddle
import paddle.fluid as fluid
exe = fluid.Executor(fluid.CPUPlace())
program, feeds, targets = fluid.io.load_inference_model(sys.argv[1], exe)
x = np.array([r[0] for r in paddle.dataset.uci_housing.test()()]).astype('float32')
p, = exe.run(program, feed={feeds[0]: x}, fetch_list=targets)
assert (p == np.load(sys.argv[1] + '/predictions.npy')).all()
'''


def test_fit_a_line_learns_and_another_process_predicts_the_same(tmp_path):
    done = run_script(FIT, tmp_path, str(tmp_path / "model"))
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[-1]) < 25
    done = run_script(LOAD, tmp_path, str(tmp_path / "model"))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("net, passes, goal", [("mlp", 6, 0.88), ("lenet", 6, 0.93)])
def test_digits_are_recognised(net, passes, goal, monkeypatch):
    """On the cut of MNIST that comes with the tests (2,000 images); the soak test takes all 60,000."""
    monkeypatch.setattr("paddle.dataset.common.DATA_HOME", os.path.abspath(DATA))
    from digits import train

    assert train(net, passes) >= goal
