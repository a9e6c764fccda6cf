"""The book's chapter on reviews, with convolutions or a network over steps: until the cost is below 0.4."""

import sys

import numpy as np
import paddle
import paddle.fluid as fluid
from paddle.fluid import layers

FOLDER, NET = sys.argv[1:3]
word_dict = paddle.dataset.imdb.word_dict()
data = layers.data(name="words", shape=[1], dtype="int64", lod_level=1)
label = layers.data(name="label", shape=[1], dtype="int64")
emb = layers.embedding(input=data, size=[len(word_dict), 32], is_sparse=True)


def convolutions():
    found = [fluid.nets.sequence_conv_pool(input=emb, num_filters=32, filter_size=size, act="tanh", pool_type="sqrt")
             for size in (3, 4)]
    return layers.fc(input=found, size=2, act="softmax")


def steps():
    rnn = layers.DynamicRNN()
    with rnn.block():
        word = rnn.step_input(emb)
        before = rnn.memory(value=0.0, shape=[32])
        now = layers.fc(input=[word, before], size=32, act="tanh")
        rnn.update_memory(before, now)
        rnn.output(now)
    return layers.fc(input=layers.sequence_last_step(rnn()), size=2, act="softmax")


prediction = {"conv": convolutions, "rnn": steps}[NET]()
avg_cost = layers.mean(layers.cross_entropy(input=prediction, label=label))
accuracy = layers.accuracy(input=prediction, label=label)
fluid.optimizer.Adagrad(learning_rate=0.02 if NET == "conv" else 0.05).minimize(avg_cost)
exe = fluid.Executor(fluid.CPUPlace())
feeder = fluid.DataFeeder(feed_list=[data, label], place=fluid.CPUPlace())
exe.run(fluid.default_startup_program())


def train():
    reader = paddle.batch(paddle.reader.shuffle(paddle.dataset.imdb.train(word_dict), buf_size=1000), batch_size=64)
    for _ in range(20):
        for batch in reader():
            cost, acc = exe.run(feed=feeder.feed(batch), fetch_list=[avg_cost, accuracy])
            if cost < 0.4 and acc > 0.8:
                fluid.io.save_inference_model(FOLDER, ["words"], [prediction], exe)
                return
    sys.exit(f"the cost is still {cost}")


def infer():
    with fluid.scope_guard(fluid.Scope()):
        program, feeds, fetches = fluid.io.load_inference_model(FOLDER, exe)
        texts = ["read the book forget the movie", "this is a great movie", "this is very bad"]
        unknown = word_dict["<unk>"]
        ids = [[word_dict.get(word.encode(), unknown) for word in text.split()] for text in texts]
        words = fluid.create_lod_tensor(ids, [[len(each) for each in ids]], fluid.CPUPlace())
        good = np.array(exe.run(program, feed={feeds[0]: words}, fetch_list=fetches, return_numpy=False)[0])
    for text, row in zip(texts, good):
        print(text, row)


train()
infer()
