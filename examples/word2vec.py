"""Word vectors from an N-gram model: four words in, the next one out (imikolov data).

    python examples/word2vec.py --sparse
    PADDLE_DATASET_SYNTHETIC=1 python examples/word2vec.py      # with made-up text
"""

import argparse

import numpy as np
import paddle
import paddle.fluid as fluid

CONTEXT = ["firstw", "secondw", "thirdw", "forthw"]


def network(dict_size, options):
    words = [fluid.layers.data(name=name, shape=[1], dtype="int64") for name in [*CONTEXT, "nextw"]]
    vectors = [fluid.layers.embedding(input=word, size=[dict_size, options.width], dtype="float32",
                                      is_sparse=options.sparse, param_attr="shared_w")
               for word in words[:4]]
    hidden = fluid.layers.fc(input=fluid.layers.concat(vectors, axis=1), size=options.hidden, act="sigmoid")
    prediction = fluid.layers.fc(input=hidden, size=dict_size, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(input=prediction, label=words[4]))
    return words, prediction, loss


def infer(exe, word_dict, options):
    """Loads the saved model and guesses the word after four others."""
    words = {number: word for word, number in word_dict.items()}
    sample = next(paddle.dataset.imikolov.test(word_dict, 5)())
    with fluid.scope_guard(fluid.core.Scope()):
        program, feeds, fetches = fluid.io.load_inference_model(options.model, exe)
        feed = {name: fluid.create_lod_tensor(np.array([[word]], dtype="int64"), [[1]], fluid.CPUPlace())
                for name, word in zip(feeds, sample)}
        scores, = exe.run(program, feed=feed, fetch_list=fetches, return_numpy=False)
    best = int(np.argmax(np.array(scores)))
    text = [word.decode() if isinstance(word, bytes) else word for word in map(words.get, [*sample, best])]
    print(f"after {' '.join(text[:4])!r} comes {text[4]!r}; the model says {text[5]!r}")


def main(options):
    word_dict = paddle.dataset.imikolov.build_dict()
    words, prediction, loss = network(len(word_dict), options)
    fluid.optimizer.SGD(learning_rate=options.rate).minimize(loss)

    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    feeder = fluid.DataFeeder(feed_list=words, place=fluid.CPUPlace())
    reader = paddle.batch(paddle.dataset.imikolov.train(word_dict, 5), options.batch_size)
    step = 0
    for number in range(options.passes):
        for batch in reader():
            loss_now, = exe.run(feed=feeder.feed(batch), fetch_list=[loss])
            if step % options.every == 0:
                print(f"pass {number}, step {step}: loss {loss_now.item():.4f}")
            step += 1
            if step == options.steps:
                break
        if step == options.steps:
            break
    fluid.io.save_inference_model(options.model, CONTEXT, [prediction], exe)
    infer(exe, word_dict, options)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--steps", type=int, default=0, help="stop after so many steps; 0: never")
    parser.add_argument("--batch-size", type=int, default=100)
    parser.add_argument("--width", type=int, default=32, help="length of a word's vector")
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--rate", type=float, default=0.1, help="learning rate")
    parser.add_argument("--sparse", action="store_true", help="gradients of the table as rows")
    parser.add_argument("--every", type=int, default=100, help="steps between two lines")
    parser.add_argument("--model", default="word2vec.model", help="folder of the saved model")
    main(parser.parse_args())
