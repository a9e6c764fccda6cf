"""One measured process. bench/run.py starts it and talks to it in lines of JSON over stdin and stdout.

    python child.py LIBRARY HOW WORK
    python child.py fluid plain files|reader FOLDER THREADS

LIBRARY is fluid, torch or numpy; HOW is plain, cached, eager or compile. The first line that comes back is
{"ready": 1, ...} or {"error": text}; WORK "start" runs one step of fit_a_line, answers
{"first_step": seconds} and ends. "files" trains CTR-DNN on the text files of a folder, "reader" only reads them; a round of theirs
is one pass or more. Then each line in gets one line out:

    {"do": "round", "seconds": s}         runs steps for s seconds     {"steps", "seconds", "loss"}
    {"do": "stream", "batches": n, ...}   see stream()                 {"varied_us", "fixed_us", ...}
    {"do": "end"}                         ends                         {"peak_mb"}

Works under Python 3.7. What libraries print goes to stderr.
"""

import json
import os
import sys
import time


def memory_mb(field):
    """VmHWM (peak) or VmRSS (now) of this process, in MB.

    ru_maxrss says the same, but a process inherits that figure from the one that started it.
    """
    with open("/proc/self/status") as status:
        for text in status:
            if text.startswith(field + ":"):
                return int(text.split()[1]) / 1024.0
    return 0.0


def first_number(loss):
    return float(loss if isinstance(loss, float) else loss.reshape(-1)[0])


class Clock:
    """Runs a step again and again. Looks at the time only about every millisecond: some steps take 10 us."""

    def __init__(self, step):
        self.step = step
        for _ in range(3):  # the first steps prepare and compile
            step()
        self.group = 1
        while True:
            begin = time.perf_counter()
            for _ in range(self.group):
                step()
            took = time.perf_counter() - begin
            if took > 0.001 or self.group >= 1024:
                break
            self.group *= 2

    def round(self, seconds):
        step, group = self.step, range(self.group)
        count, loss = 0, None
        # The library that ran before leaves cold caches and threads that still spin: every library gets the same run-up.
        begin = time.perf_counter()
        while time.perf_counter() - begin < 0.25:
            step()
        begin = time.perf_counter()
        while True:
            for _ in group:
                loss = step()
            count += self.group
            took = time.perf_counter() - begin
            if took >= seconds:
                return {"steps": count, "seconds": took, "loss": first_number(loss)}


def stream(models, batches, rounds):
    """Batches whose lengths all differ, and as many of one length with the same mean, in turns.

    Only exe.run is timed. The memory in use is reported after a tenth of the batches and at the end.
    """
    import numpy as np

    rng = np.random.RandomState(1)
    in_batch, mean = 64, 6400
    step = models.Step("sequences", "plain")
    totals = mean - 4 * mean // 5 + rng.permutation(np.arange(batches) * (8 * mean // 5) // batches)
    ids = rng.randint(0, 5000, (2 * mean, 1)).astype("int64")
    label = rng.randint(0, 2, (in_batch, 1)).astype("int64")
    took = {"varied": 0.0, "fixed": 0.0}
    fixed = {"ids": models.lod(ids[:mean], [mean // in_batch] * in_batch), "label": label}
    rss, losses = [], []
    parts = np.array_split(totals, max(rounds, 10))

    def run(kind, feed):
        begin = time.perf_counter()
        losses.append(first_number(step.run(feed)))
        took[kind] += time.perf_counter() - begin

    for _ in range(20):
        run("fixed", fixed)
    took["fixed"] = 0.0
    for part in parts:
        for total in part:
            lengths = models.stream_lengths(rng, int(total), in_batch)
            run("varied", {"ids": models.lod(ids[:total], lengths), "label": label})
        for _ in part:
            run("fixed", fixed)
        rss.append(memory_mb("VmRSS"))
        del losses[:-1]
    return {
        "batches": batches,
        "mean_ratio": float(np.mean(totals)) / mean,
        "varied_us": 1e6 * took["varied"] / batches,
        "fixed_us": 1e6 * took["fixed"] / batches,
        "rss_early_mb": rss[len(parts) // 10 - 1],
        "rss_end_mb": rss[-1],
    }


class NumpyGemm:
    def __init__(self, size):
        import numpy as np

        self.a = np.full((size, size), 0.5, "float32")
        self.out = np.empty_like(self.a)
        self.dot = np.dot

    def __call__(self):
        return self.dot(self.a, self.a, out=self.out)


def build(library, how, work):
    """Returns (the module of the models or None, the step or None)."""
    if library == "numpy":
        return None, NumpyGemm(2048)
    if library == "torch":
        import models_torch as models
    else:
        import models_fluid as models
    if work == "stream":
        return models, None
    if work == "gemm":
        return models, models.Gemm(2048)
    return models, models.Step("fit_a_line" if work == "start" else work, how)


def main():
    library, how, work = sys.argv[1:4]
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(**what):
        out.write(json.dumps(what) + "\n")
        out.flush()

    try:
        begin = time.perf_counter()
        if work in ("files", "reader"):
            import models_fluid

            models, step = models_fluid, None
            clock = models.Files("ctr_dnn" if work == "files" else None, sys.argv[4], int(sys.argv[5]))
            clock.round(0)
        else:
            models, step = build(library, how, work)
            clock = Clock(step) if step and work != "start" else None
        if work == "start":
            step()
            say(first_step=time.perf_counter() - begin)
            return
        say(ready=1, seconds=time.perf_counter() - begin)
        for text in sys.stdin:
            request = json.loads(text)
            if request["do"] == "round":
                say(**clock.round(request["seconds"]))
            elif request["do"] == "stream":
                say(**stream(models, request["batches"], request.get("rounds", 10)))
            else:
                say(peak_mb=memory_mb("VmHWM"))
                break
    except Exception as error:
        say(error="%s: %s" % (type(error).__name__, error))
        raise


if __name__ == "__main__":
    main()
