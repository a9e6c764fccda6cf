"""Training of the digits nets, shared by the tests and the soak test."""
import numpy as np


def build(fluid, net):
    image = fluid.layers.data(name="pixel", shape=[1, 28, 28], dtype="float32")
    label = fluid.layers.data(name="label", shape=[1], dtype="int64")
    if net == "mlp":
        hidden = fluid.layers.fc(input=image, size=200, act="relu")
        hidden = fluid.layers.fc(input=hidden, size=200, act="relu")
    else:
        hidden = fluid.nets.simple_img_conv_pool(input=image, filter_size=5, num_filters=20, pool_size=2,
                                                 pool_stride=2, act="relu")
        hidden = fluid.layers.batch_norm(hidden)
        hidden = fluid.nets.simple_img_conv_pool(input=hidden, filter_size=5, num_filters=50, pool_size=2,
                                                 pool_stride=2, act="relu")
    predict = fluid.layers.fc(input=hidden, size=10, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(input=predict, label=label))
    return image, label, loss, fluid.layers.accuracy(input=predict, label=label)


def train(net, passes):
    """Trains with Adam, batch 64, a falling learning rate, and returns the accuracy on the test images."""
    import paddle
    import paddle.fluid as fluid

    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 5
    with fluid.program_guard(main, startup), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        image, label, loss, accuracy = build(fluid, net)
        test = main.clone(for_test=True)
        rows = list(paddle.dataset.mnist.train()())
        rate = fluid.layers.polynomial_decay(0.002, passes * (len(rows) // 64 + 1), 0.0001)
        fluid.optimizer.Adam(rate).minimize(loss)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        rng = np.random.RandomState(3)
        pixels = np.array([r[0] for r in rows], "float32").reshape(-1, 1, 28, 28)
        labels = np.array([r[1] for r in rows], "int64").reshape(-1, 1)
        for _ in range(passes):
            order = rng.permutation(len(rows))
            for at in range(0, len(rows), 64):
                pick = order[at:at + 64]
                exe.run(main, feed={"pixel": pixels[pick], "label": labels[pick]}, fetch_list=[loss])
        rows = list(paddle.dataset.mnist.test()())
        right = total = 0
        for at in range(0, len(rows), 250):
            part = rows[at:at + 250]
            value, = exe.run(test, feed={"pixel": np.array([r[0] for r in part], "float32").reshape(-1, 1, 28, 28),
                                         "label": np.array([r[1] for r in part], "int64").reshape(-1, 1)},
                             fetch_list=[accuracy])
            right += float(value[0]) * len(part)
            total += len(part)
        return right / total
