"""A process that runs recipes: one of this project, or one of paddlepaddle 1.8.5 (Python 3.7).

    python worker.py        reads jobs from standard input and answers on what was its standard output

A job and an answer are a length of 8 bytes and a pickle; arrays travel as (type, shape, bytes), which every numpy reads.
"""

import os
import pickle
import resource
import shutil
import struct
import sys
import tempfile
import traceback

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
answers = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)  # whatever else is printed does not get in between
if "ASAN_OPTIONS" not in os.environ:  # sanitizers map far more than they use
    resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))  # cutting a recipe down may leave a loop without an end

import numpy as np  # noqa: E402
import paddle.fluid as fluid  # noqa: E402

from programs.build import Built  # noqa: E402
from programs.recipe import random_of  # noqa: E402


def packed(values):
    """A dict of arrays, ready to travel."""
    return {name: (value.dtype.str, value.shape, np.ascontiguousarray(value).tobytes()) for name, value in values.items()}


def set_flags(flags):
    """Sets the flags that there are: 1.8.5 does not know ours."""
    for name, value in flags.items():
        try:
            fluid.set_flags({name: value})
        except ValueError:
            pass


def why(error):
    """An error in one text."""
    return "%s: %s" % (type(error).__name__, error)


def run(recipe, dtype, apart):
    """All runs of a recipe: the values of each, the persistable variables at the end, and the error that ended it."""
    found = {"runs": [], "state": {}, "error": None}
    try:
        built = Built(recipe, dtype, train=True, apart=apart)
    except Exception as error:
        return dict(found, error="build: %s\n%s" % (why(error), place_of(error)))
    for number in range(len(recipe["runs"])):
        try:
            found["runs"].append(packed(built.run(number)))
        except Exception as error:
            return dict(found, error="run %d: %s" % (number, why(error)))
    found["state"] = packed(built.state())
    if recipe["model"]:
        try:
            found["state"].update(packed({"loss of the saved model": model(recipe, dtype)}))
        except Exception as error:
            return dict(found, error="model: %s\n%s" % (why(error), place_of(error)))
    return found


def place_of(error):
    """The innermost lines of the recipe or of this folder."""
    frames = traceback.extract_tb(error.__traceback__)
    return "; ".join("%s:%d" % (os.path.basename(frame.filename), frame.lineno) for frame in frames[-4:])


def model(recipe, dtype):
    """The loss of run 0 after saving as an inference model and loading it."""
    built = Built(recipe, dtype, train=False)
    folder = tempfile.mkdtemp()
    feed = built.feed(0)
    try:
        with fluid.scope_guard(built.scope):
            fluid.io.save_inference_model(folder, built.feeds, [built.loss], built.exe, main_program=built.main)
        with fluid.scope_guard(fluid.Scope()):
            program, feeds, targets = fluid.io.load_inference_model(folder, built.exe)
            return built.exe.run(program, feed={name: feed[name] for name in feeds}, fetch_list=targets)[0]
    finally:
        shutil.rmtree(folder)


def slopes(recipe):
    """leaf -> how the loss of run 0 changes along one random direction: (direction, slope, slope of each side).

    And the loss itself. In float64; what stop() was called on keeps its value.
    """
    built = Built(recipe, "float64", train=False)
    feed = built.feed(0)
    loss, frozen = built.loss_of(feed, built.frozen)
    if frozen:
        built = Built(recipe, "float64", train=False, fixed=True)
        feed.update(("frozen_%d" % i, value) for i, value in enumerate(frozen))
    tied = has_ties(built, feed)
    step, found = 1e-6, {}
    for leaf in built.leaves:
        lengths = feed[leaf].recursive_sequence_lengths() if hasattr(feed.get(leaf), "recursive_sequence_lengths") else None
        center = np.array(feed[leaf]) if leaf in feed else built.begin[leaf]
        direction = random_of("direction", leaf, *center.shape).uniform(-1, 1, center.shape)
        sides = []
        for sign in (-1, 1):
            built.restore()
            moved = center + sign * step * direction
            if leaf in feed:
                value = Built.wrap(moved, lengths[0]) if lengths else moved
                sides.append(built.loss_of(dict(feed, **{leaf: value}))[0])
            else:
                built.put(leaf, moved)
                sides.append(built.loss_of(feed)[0])
        low, high = (loss - sides[0]) / step, (sides[1] - loss) / step
        found[leaf] = {"slope": (sides[1] - sides[0]) / (2 * step), "sides": (low, high)}
        found[leaf].update(packed({"direction": direction}))
    return {"loss": loss, "leaves": found, "ties": tied}


def has_ties(built, feed):
    """Is there a greatest or least value that several elements have? Each of them gets the whole gradient, as in 1.8.5; where they
    are equal wherever one looks (a + b and b + a), the loss changes with one of them alone, on both sides."""
    ops = [op for op in built.main.global_block().ops if op.type in ("reduce_max", "reduce_min")]
    for op in ops:
        built.restore()
        value = built.loss_of(feed, [op.input("X")[0]])[1][0]
        axes = None if op.attr("reduce_all") else tuple(op.attr("dim"))
        best = (np.max if op.type == "reduce_max" else np.min)(value, axis=axes, keepdims=True)
        if (np.sum(value == best, axis=axes) > 1).any():
            return True
    built.restore()
    return False


def answer(job):
    """What a job asks for."""
    set_flags(job.get("flags", {}))
    if job["job"] == "hello":
        return {}
    if job["job"] == "run":
        return run(job["recipe"], job["dtype"], job.get("apart", False))
    try:
        return slopes(job["recipe"])
    except Exception as error:
        return {"error": why(error) + "\n" + place_of(error)}


def main():
    while True:
        head = sys.stdin.buffer.read(8)
        if len(head) < 8:
            return
        job = pickle.loads(sys.stdin.buffer.read(struct.unpack("<q", head)[0]))
        text = pickle.dumps(answer(job), protocol=2)
        answers.write(struct.pack("<q", len(text)) + text)
        answers.flush()


if __name__ == "__main__":
    main()
