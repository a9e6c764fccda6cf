"""The book's N-gram chapter: train until the test loss is below 5.0, then ask with ids written into the script."""

import sys

import numpy as np
import paddle
import paddle.fluid as fluid

FOLDER = sys.argv[1]
EMBED_SIZE, HIDDEN_SIZE, N, BATCH_SIZE = 32, 256, 5, 100
NAMES = ["firstw", "secondw", "thirdw", "fourthw"]
word_dict = paddle.dataset.imikolov.build_dict()
dict_size = len(word_dict)

words = [fluid.data(name=name, shape=[None, 1], dtype="int64") for name in NAMES]
next_word = fluid.data(name="nextw", shape=[None, 1], dtype="int64")
embedded = [fluid.embedding(input=word, size=[dict_size, EMBED_SIZE], is_sparse=True, param_attr="shared_w") for word in words]
concat = fluid.layers.reshape(fluid.layers.concat(input=embedded, axis=-1), [-1, 4 * EMBED_SIZE])
hidden = fluid.layers.fc(input=concat, size=HIDDEN_SIZE, act="sigmoid")
predict = fluid.layers.fc(input=hidden, size=dict_size, act="softmax")
avg_cost = fluid.layers.mean(fluid.layers.cross_entropy(input=predict, label=next_word))
test_program = fluid.default_main_program().clone(for_test=True)
fluid.optimizer.AdagradOptimizer(
    learning_rate=3e-3, regularization=fluid.regularizer.L2DecayRegularizer(8e-4)).minimize(avg_cost)

exe = fluid.Executor(fluid.CPUPlace())
feeder = fluid.DataFeeder(feed_list=[*words, next_word], place=fluid.CPUPlace())
exe.run(fluid.default_startup_program())


def train():
    step, cost = 0, None
    for _ in range(100):
        for data in paddle.batch(paddle.dataset.imikolov.train(word_dict, N), BATCH_SIZE)():
            exe.run(feed=feeder.feed(data), fetch_list=[avg_cost])
            if step % 50 == 0:
                costs = [exe.run(test_program, feed=feeder.feed(batch), fetch_list=[avg_cost])[0]
                         for batch in paddle.batch(paddle.dataset.imikolov.test(word_dict, N), BATCH_SIZE)()]
                cost = float(np.mean(costs))
                if cost < 5.0:
                    fluid.io.save_inference_model(FOLDER, NAMES, [predict], exe)
                    return
            step += 1
    sys.exit(f"the cost is still {cost}")


def infer():
    with fluid.scope_guard(fluid.Scope()):
        program, feeds, fetches = fluid.io.load_inference_model(FOLDER, exe)
        ids = [fluid.create_lod_tensor(np.array([[number]], "int64"), [[1]], fluid.CPUPlace()) for number in (211, 6, 96, 4)]
        results = exe.run(program, feed=dict(zip(feeds, ids)), fetch_list=fetches, return_numpy=False)
        most_possible = int(np.array(results[0])[0].argmax())
    names = {number: word for word, number in word_dict.items()}
    print("most likely:", names[most_possible])


train()
infer()
