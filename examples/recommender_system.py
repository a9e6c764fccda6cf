"""Which film does a user like? The cosine of a vector for the user and one for the film (MovieLens).

    PADDLE_DATASET_SYNTHETIC=1 python examples/recommender_system.py --passes 3
"""

import argparse

import numpy as np
import paddle
import paddle.fluid as fluid

layers, movielens = fluid.layers, paddle.dataset.movielens


def lookup(name, rows, width, lod_level=0):
    ids = layers.data(name=name, shape=[1], dtype="int64", lod_level=lod_level)
    return layers.embedding(input=ids, size=[rows, width], dtype="float32", is_sparse=True)


def user_tower():
    parts = []
    for name, rows, width in [("user_id", movielens.max_user_id() + 1, 32), ("gender_id", 2, 16),
                              ("age_id", len(movielens.age_table), 16),
                              ("job_id", movielens.max_job_id() + 1, 16)]:
        parts.append(layers.fc(input=lookup(name, rows, width), size=width))
    return layers.fc(input=layers.concat(parts, axis=1), size=200, act="tanh")


def film_tower():
    film = layers.fc(input=lookup("movie_id", movielens.max_movie_id() + 1, 32), size=32)
    categories = layers.sequence_pool(
        input=lookup("category_id", len(movielens.movie_categories()), 32, lod_level=1), pool_type="sum")
    title = fluid.nets.sequence_conv_pool(
        input=lookup("movie_title", len(movielens.get_movie_title_dict()), 32, lod_level=1),
        num_filters=32, filter_size=3, act="tanh", pool_type="sum")
    return layers.fc(input=layers.concat([film, categories, title], axis=1), size=200, act="tanh")


def infer(exe, options):
    """Loads the saved model and rates one film for one user of the test data."""
    sample = next(movielens.test()())
    with fluid.scope_guard(fluid.core.Scope()):
        program, feeds, fetches = fluid.io.load_inference_model(options.model, exe)
        feed = {}
        for name, value in zip(feeds, sample):
            ids = np.array(value, dtype="int64").reshape(-1, 1)
            feed[name] = fluid.create_lod_tensor(ids, [[len(ids)]], fluid.CPUPlace())
        score, = exe.run(program, feed=feed, fetch_list=fetches, return_numpy=False)
    print(f"user {sample[0]}, film {sample[4]}: rated {sample[7][0]:.1f}, "
          f"inferred {np.array(score).item():.2f} (-5 to 5)")


def main(options):
    similarity = layers.cos_sim(X=user_tower(), Y=film_tower())
    prediction = layers.scale(x=similarity, scale=5.0)
    score = layers.data(name="score", shape=[1], dtype="float32")
    loss = layers.mean(layers.square_error_cost(input=prediction, label=score))
    test_program = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.SGD(learning_rate=options.rate).minimize(loss)

    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    names = ["user_id", "gender_id", "age_id", "job_id", "movie_id", "category_id", "movie_title", "score"]
    block = fluid.default_main_program().global_block()
    feeder = fluid.DataFeeder(feed_list=[block.var(name) for name in names], place=fluid.CPUPlace())
    reader = paddle.batch(paddle.reader.shuffle(movielens.train(), buf_size=8192), options.batch_size)
    step = 0
    for number in range(options.passes):
        for batch in reader():
            loss_now, = exe.run(feed=feeder.feed(batch), fetch_list=[loss])
            if step % options.every == 0:
                print(f"pass {number}, step {step}: loss {loss_now.item():.4f}")
            step += 1
            if step == options.steps:
                break
        tests = [exe.run(test_program, feed=feeder.feed(batch), fetch_list=[loss])[0].item()
                 for batch in paddle.batch(movielens.test(), options.batch_size)()]
        print(f"pass {number}, test: loss {np.mean(tests):.4f}")
        if step == options.steps:
            break
    fluid.io.save_inference_model(options.model, names[:7], [prediction], exe)
    infer(exe, options)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--steps", type=int, default=0, help="stop after so many steps; 0: never")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--rate", type=float, default=0.2, help="learning rate")
    parser.add_argument("--every", type=int, default=100, help="steps between two lines")
    parser.add_argument("--model", default="recommender_system.model", help="folder of the saved model")
    main(parser.parse_args())
