"""Long streams: memory stays flat and steps stay fast when every batch has another size."""
import os
import resource
import time

import numpy as np

BATCHES = int(os.environ.get("SOAK_BATCHES", "10000"))


def resident_kib():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize() // 1024


def build(fluid):
    words = fluid.layers.data(name="words", shape=[1], dtype="int64", lod_level=1)
    label = fluid.layers.data(name="label", shape=[1], dtype="int64")
    emb = fluid.layers.embedding(words, [5000, 16], is_sparse=True)
    conv = fluid.nets.sequence_conv_pool(input=emb, num_filters=16, filter_size=3, act="tanh", pool_type="sqrt")
    predict = fluid.layers.fc(conv, 2, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(predict, label))
    fluid.optimizer.Adagrad(0.01).minimize(loss)
    return loss


def feeds(fluid, lengths, rng):
    ids = rng.randint(0, 5000, (int(np.sum(lengths)), 1)).astype("int64")
    tensor = fluid.create_lod_tensor(ids, [list(map(int, lengths))], fluid.CPUPlace())
    return {"words": tensor, "label": rng.randint(0, 2, (len(lengths), 1)).astype("int64")}


def test_batches_of_all_different_lengths(record_property):
    import paddle.fluid as fluid

    rng = np.random.RandomState(1)
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()):
        loss = build(fluid)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        mean, rows = 40, 16

        def lengths(i):
            # A multiset of lengths that no two batches share, with the same sum on average.
            return rng.randint(1, 2 * mean, rows)

        def step(batch):
            began = time.perf_counter()
            exe.run(main, feed=batch, fetch_list=[loss])
            return time.perf_counter() - began

        fixed = feeds(fluid, [mean] * rows, rng)
        at_1000 = None
        varied, steady = [], []
        for i in range(BATCHES):
            varied.append(step(feeds(fluid, lengths(i), rng)))
            if i % 10 == 0:
                steady.append(step(fixed))
                steady[-1] = step(fixed)  # the second of two: sizes are bound already
            if i == BATCHES // 10:
                at_1000 = resident_kib()
        grown = resident_kib() - at_1000
        ratio = np.median(varied) / np.median(steady)
        record_property("batches", BATCHES)
        record_property("us a step of another size (median)", f"{np.median(varied) * 1e6:.0f}")
        record_property("us a step of the same size", f"{np.median(steady) * 1e6:.0f}")
        record_property("ratio", f"{ratio:.2f}")
        record_property("memory grew by KiB after the first tenth", grown)
        assert grown < 2048
