"""The same script on the same machine with the same seed and number of threads gives the same bits, by default, however busy
the machine is: nothing is chosen by a race."""
import os
import subprocess
import sys

import pytest

TRAIN = '''
import sys, hashlib, numpy as np, paddle.fluid as fluid
L = fluid.layers

def mlp():
    x, y = fluid.data('x', [None, 200], 'float32'), fluid.data('y', [None, 1], 'int64')
    h = L.fc(L.fc(x, 256, act='relu'), 256, act='tanh')
    return L.mean(L.softmax_with_cross_entropy(L.fc(h, 3000), y)), lambda r, n: r.rand(n, 200).astype('float32')

def lenet():
    x, y = fluid.data('x', [None, 1, 20, 20], 'float32'), fluid.data('y', [None, 1], 'int64')
    h = fluid.nets.simple_img_conv_pool(x, 8, 5, 2, 2, act='relu')
    h = L.batch_norm(fluid.nets.simple_img_conv_pool(h, 16, 3, 2, 2, act='relu'))
    return L.mean(L.cross_entropy(L.fc(h, 10, act='softmax'), y)), lambda r, n: r.rand(n, 1, 20, 20).astype('float32')

def words():
    x, y = fluid.data('x', [None, 4], 'int64'), fluid.data('y', [None, 1], 'int64')
    h = L.fc(fluid.embedding(x, [2000, 32], is_sparse=True), 64, act='sigmoid')
    return L.mean(L.softmax_with_cross_entropy(L.fc(h, 2000), y)), lambda r, n: r.randint(0, 2000, (n, 4))

np.random.seed(1)
main, startup = fluid.Program(), fluid.Program()
main.random_seed = startup.random_seed = 3
with fluid.program_guard(main, startup):
    loss, make = {'mlp': mlp, 'lenet': lenet, 'words': words}[sys.argv[1]]()
    fluid.optimizer.Adam(1e-3).minimize(loss)
exe = fluid.Executor()
exe.run(startup)
r, found = np.random.RandomState(5), hashlib.sha256()
for step in range(int(sys.argv[2])):
    n = 64 + 7 * (step % 3)
    value, = exe.run(main, feed={'x': make(r, n), 'y': r.randint(0, 10, (n, 1))}, fetch_list=[loss])
    found.update(value.tobytes())
for p in main.all_parameters():
    found.update(np.array(fluid.global_scope().find_var(p.name).get_tensor()).tobytes())
print(found.hexdigest())
'''


@pytest.mark.parametrize('threads', [1, 2, 3])
@pytest.mark.parametrize('model', ['mlp', 'lenet', 'words'])
def test_runs_side_by_side_are_equal(model, threads):
    """Three at once: they take the cores from each other at other moments, so that each changes its pace at other steps."""
    env = dict(os.environ, OMP_NUM_THREADS=str(threads), OMP_WAIT_POLICY='passive')
    steps = os.environ.get('SAME_BITS_STEPS', '40')
    jobs = [subprocess.Popen([sys.executable, '-c', TRAIN, model, steps], env=env, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True) for _ in range(3)]
    ends = [job.communicate(timeout=300) for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0, 0], ends[0][1]
    assert len({out for out, _ in ends}) == 1
