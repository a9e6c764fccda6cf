"""InMemoryDataset.global_shuffle over the workers of a Fleet job: every sample is somewhere, once."""

import json
from pathlib import Path

import pytest
from test_fleet_jobs import Job as FleetJob

SCRIPT = Path(__file__).parent / "jobs" / "shuffle_job.py"
SOON = {"FLAGS_ps_notice": "300", "FLAGS_ps_reconnect": "700"}


class Job(FleetJob):
    """A server, and workers with words of their own."""

    def __init__(self, *words, **env):
        super().__init__(1, len(words), SCRIPT, **{**SOON, **env})
        self.start_servers()
        for i, each in enumerate(words):
            env = {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(i)}
            self.workers.append(self._start(f"worker-{i}", each, env))


def write(path, numbers):
    path.write_text("".join(f"{k % 3 + 1} {' '.join([str(k + 1)] * (k % 3 + 1))} 1 {k}\n" for k in numbers))
    return str(path)


def shuffled(tmp_path, name, sizes, *words, **env):
    """Worker i has sizes[i] samples at first. What each has in the end."""
    first, files = 0, []
    for i, size in enumerate(sizes):
        files.append(["--files", write(tmp_path / f"{name}-{i}.txt", range(first, first + size))] if size else [])
        first += size
    outs = [tmp_path / f"{name}-{i}.out" for i in range(len(sizes))]
    with Job(*([*own, "--out", out, *words] for own, out in zip(files, outs)), **env) as job:
        job.end()
        for worker, size in zip(job.workers, sizes):
            assert f"has {size} of {sum(sizes)}\n" in worker.output()
            assert f" of {sum(sizes)}\n" in worker.output().partition("got ")[2]
            if "--train" in words:
                last = json.loads([line for line in worker.output().splitlines() if '"what": "train"' in line][-1])
                assert last["over"] and last["waiting"] > 0 and last["waiting_for"] == "servers"
    return [list(map(int, out.read_text().split())) for out in outs]


@pytest.mark.parametrize("sizes", [(1000, 1000), (700, 0, 1301)], ids=["2 workers", "one of 3 without a file"])
def test_every_sample_is_there_once(tmp_path, sizes):
    found = shuffled(tmp_path, "a", sizes, "--train", PADDLE_PS_SECRET="a secret of this job alone", PADDLE_PROGRESS="json")
    assert sorted(sum(found, [])) == list(range(sum(sizes)))
    assert max(map(len, found)) - min(map(len, found)) <= 1
    for each in found:
        assert each != sorted(each)
        share = sum(k < sizes[0] for k in each) / len(each)
        assert abs(share - sizes[0] / sum(sizes)) < 0.1  # some of all


def test_a_part_may_be_none(tmp_path):
    """Fewer samples than workers: who gets none says so, and passes."""
    files = [["--files", write(tmp_path / f"{i}.txt", [i])] for i in range(2)] + [[]]
    with Job(*([*each, "--train"] for each in files)) as job:
        job.end()
        sizes = [int(worker.output().partition("got ")[2].split()[0]) for worker in job.workers]
        assert sorted(sizes) == [0, 1, 1]
        for worker, size in zip(job.workers, sizes):
            assert ("global_shuffle has dealt no sample to this worker" in worker.output()) == (size == 0)


def test_a_seed_tells_who_gets_what(tmp_path):
    """Whichever connection was faster; and again with what came of it."""
    words = ("--seed", 5, "--times", 2)
    first = shuffled(tmp_path, "a", (500, 300, 10), *words)
    assert first == shuffled(tmp_path, "b", (500, 300, 10), *words, PADDLE_PS_TRANSPORT="tcp")
    assert first != shuffled(tmp_path, "c", (500, 300, 10), "--seed", 6, "--times", 2)
    assert sorted(sum(first, [])) == list(range(810))


def test_samples_of_one_id_meet(tmp_path):
    """Each worker has one half of each pair; one id is alone, and left out. What was merged stays so in the next shuffles."""
    files = []
    for i in range(2):
        files.append(tmp_path / f"{i}.txt")
        files[i].write_text("".join(f"1 line-{k} 1 {k + 1} 1 {k}\n" for k in range(300 + i)))
    with Job(*(["--files", file, "--merge", 2, "--times", 3] for file in files)) as job:
        job.end()
        got = [line.split() for worker in job.workers for line in worker.output().splitlines() if line.startswith("got ")]
        assert [each[3] for each in got] == ["300", "300"] and sum(int(each[1]) for each in got) == 300
        assert all(90 < int(each[1]) < 210 for each in got)
        assert sum("1 samples were left out" in worker.output() for worker in job.workers) == 1


def test_a_worker_is_killed(tmp_path):
    files = ["--files", write(tmp_path / "a.txt", range(50))]
    with Job(files, files, [*files, "--kill"], FLAGS_ps_on_trainer_loss="shrink") as job:
        for worker in job.workers[:2]:
            assert worker.end() != 0
            assert "worker 2 (127.0.0.1:" in worker.output()
            assert "was lost while workers handed each other samples" in worker.output()


def test_workers_that_are_not_alike(tmp_path):
    files = ["--files", write(tmp_path / "a.txt", range(50))]
    with Job(files, [*files, "--seed", 3]) as job:
        for worker in job.workers:
            assert worker.end() != 0
            assert "worker 1's seed (set_shuffle_seed) is 3, and worker 0's None: all workers must have the same" in worker.output()


def test_a_worker_cannot_be_reached(tmp_path):
    """Its address is another machine's: that worker says so, and the other hears it."""
    files = ["--files", write(tmp_path / "a.txt", range(50))]
    with Job(files, files, PADDLE_WORKER_ADDRESS="203.0.113.9") as job:
        for worker in job.workers:
            assert worker.end() != 0
            assert "203.0.113.9" in worker.output()
