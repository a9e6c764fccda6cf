"""A process that computed with several threads forks, as multiprocessing does by default: the child computes too, and both
agree."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import os, sys, threading
import numpy as np
import paddle.fluid as fluid

L = fluid.layers
image = L.data("image", [8, 24, 24])
x = L.data("x", [512])
hidden = L.fc(L.fc(x, 512, act="relu"), 512)
loss = L.mean(hidden) + L.mean(L.conv2d(image, 16, 3, act="relu"))
test = fluid.default_main_program().clone(for_test=True)
fluid.optimizer.Adam(0.01).minimize(loss)
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
rng = np.random.RandomState(1)
feed = {"x": rng.rand(256, 512).astype("float32"), "image": rng.rand(16, 8, 24, 24).astype("float32")}
for _ in range(2):
    exe.run(feed=feed, fetch_list=[loss])
want = exe.run(test, feed=feed, fetch_list=[loss])[0]


def evaluate(exe):
    np.testing.assert_allclose(exe.run(test, feed=feed, fetch_list=[loss])[0], want, rtol=1e-6)


def child():
    if sys.argv[1] == "same":
        evaluate(exe)
    elif sys.argv[1] == "own":
        evaluate(fluid.Executor(fluid.CPUPlace()))
    elif sys.argv[1] == "thread":
        thread = threading.Thread(target=evaluate, args=(exe,))
        thread.start()
        thread.join()
    exe.run(feed=feed, fetch_list=[loss])


pid = os.fork()
if pid == 0:
    child()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
evaluate(exe)
print("both are done")
"""


@pytest.mark.parametrize("who", ["same", "own", "thread", "trains"])
def test_a_child_computes(tmp_path, who):
    (tmp_path / "script.py").write_text(SCRIPT)
    env = {**os.environ, "OMP_NUM_THREADS": "2"}
    found = subprocess.run([sys.executable, tmp_path / "script.py", who], env=env, capture_output=True, text=True, timeout=120)
    assert found.returncode == 0 and "both are done" in found.stdout, found.stderr
