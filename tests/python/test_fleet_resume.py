"""A Fleet job that keeps checkpoints is killed as a whole, and goes on from the newest one: to the bits of a job that nobody
disturbed. docs/RESUME.md is the guide."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_fleet_jobs import Job as FleetJob

from paddle.fluid.incubate.fleet.base import checkpoint_folder as folders
from paddle.fluid.incubate.fleet.base import checkpoint_job as jobs

SCRIPT = Path(__file__).parent / "jobs" / "resume_job.py"
SOON = {"FLAGS_rpc_deadline": "30000", "FLAGS_ps_notice": "1000", "PADDLE_PROGRESS": "0"}
IS_LONG = os.environ.get("PADDLE_SOAK") == "1"
NUMBER = "00000000deadbeef\n"  # of the job: without it each folder would have random seeds of its own


def make_data(folder, files=6, seed=0):
    """Files of different lengths: one worker has more batches than the other."""
    rng = np.random.RandomState(seed)
    folder.mkdir()
    for number in range(files):
        with open(folder / f"part-{number}", "w") as file:
            for _ in range(rng.randint(15, 45)):
                ids, x = rng.randint(1, 50, rng.randint(1, 4)), rng.uniform(-1, 1, 6)
                file.write(f"{len(ids)} {' '.join(map(str, ids))} 6 {' '.join(f'{each:.3f}' for each in x)} "
                           f"1 {rng.uniform(-1, 1):.3f}\n")
    return folder


class Job(FleetJob):
    """All processes of a job with checkpoints, started."""

    def __init__(self, folder, words, servers=2, workers=2, resume="auto", steps=5, number=NUMBER, **env):
        flags = {"FLAGS_checkpoint_dir": str(folder), "FLAGS_resume": resume, "FLAGS_checkpoint_steps": str(steps)}
        super().__init__(servers, workers, SCRIPT, **{**SOON, **flags, **env})
        folder.mkdir(exist_ok=True)
        if not (folder / "job").exists():
            (folder / "job").write_text(number)
        self.start_servers(*words)
        self.start_workers(*words)

    def kill(self):
        for process in self.servers + self.workers:
            process.kill()


def bits(folder):
    """What a job saved, less what a killed one left. The rows of a table are put in the order of their ids: servers write them as
    they came."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*"))
             if path.is_file() and ".tmp." not in path.name and path.parent.name != "__lookup_table__"}
    if (folder / "__lookup_table__").is_dir():
        paddle, out = Path(sys.executable).with_name("paddle"), f"{folder}.npz"
        subprocess.run([paddle, "table", "export", folder, "--overwrite", "--output", out], check=True, stdout=subprocess.DEVNULL)
        found["table"] = Path(out).read_bytes()
    return found


def run(folder, words, **options):
    """A job that nobody disturbs."""
    with Job(folder, words, **options) as job:
        job.end()
        return [worker.output() for worker in job.workers]


def words_of(tmp_path, out, *more):
    return ["--data", tmp_path / "data", "--save", tmp_path / out, *more]


def drawn(outputs):
    return [int(re.search(r"^drawn (\d+)$", output, re.MULTILINE).group(1)) for output in outputs]


@pytest.mark.parametrize("at", [2, 5, 7] if not IS_LONG else range(1, 11))
def test_killed_at_a_checkpoint_and_resumed_on_other_servers(tmp_path, at):
    """Dropout, statistics of batch norm, Adam with a schedule, sparse rows, unequal numbers of batches; 2 servers, then 3, then 1.
    The last checkpoints of a pass are made when one worker has no more batches."""
    make_data(tmp_path / "data")
    run(tmp_path / "whole", words_of(tmp_path, "right"))
    words, ck = words_of(tmp_path, "found"), tmp_path / "ck"
    with Job(ck, words, resume="never") as job:
        job.workers[0].wait_for(f"checkpoint {folders.path_of(ck, at)}:", 60)
        job.kill()
    with Job(ck, words, servers=3) as job:
        job.workers[0].wait_for(f"checkpoint {folders.path_of(ck, at + 2)}:", 60)
        job.kill()
    outputs = run(ck, words, servers=1)
    assert all("this worker goes on from the checkpoint" in output for output in outputs)
    assert bits(tmp_path / "right") == bits(tmp_path / "found")


@pytest.mark.parametrize("words", [["--memory", "local"], ["--memory", "global", "--threads", "2", "--noise", "0"], ["--table"],
                                   ["--feed"], ["--feed", "--shuffle"]],
                         ids=["shuffled", "shuffled over all, two threads", "a table", "fed", "shuffled and fed"])
def test_killed_at_any_moment(tmp_path, words):
    """Again and again, also while a checkpoint is written: shuffles in memory without a seed, a table of any ids, a loop that
    feeds."""
    make_data(tmp_path / "data")
    whole = run(tmp_path / "whole", words_of(tmp_path, "right", *words))
    rng, ck = random.Random(str(words)), tmp_path / "ck"
    for kill in range(6 if IS_LONG else 2):
        with Job(ck, words_of(tmp_path, "found", *words), servers=1 + kill % 3) as job:
            last = (folders.numbers(ck) or [0])[-1]
            job.workers[0].wait_for(f"checkpoint {ck}", 60)
            target = folders.path_of(ck, last + rng.randrange(1, 4), rng.choice([folders.NAME, folders.PART]))
            while not os.path.exists(target) and all(worker.process.poll() is None for worker in job.workers):
                pass
            job.kill()
    found = run(ck, words_of(tmp_path, "found", *words), servers=2)
    if "--threads" not in words:  # two threads are Hogwild: sums of sums in another order
        assert bits(tmp_path / "right") == bits(tmp_path / "found")
    if "--shuffle" in words:
        assert drawn(whole) == drawn(found)
        return
    for number, worker in enumerate(("worker-0", "worker-1")):
        state = json.loads((Path(folders.newest(ck)[0]) / worker / "state.json").read_text())
        name, keys, *rest = state["random"]["numpy"]
        np.random.set_state((name, np.array(keys, "uint32"), *rest))
        assert np.random.randint(0, 1 << 30) == drawn(found)[number]  # nobody has drawn since


def test_goes_on_in_another_folder(tmp_path):
    """Random numbers and shuffles are those of the checkpoint, not of the folder."""
    make_data(tmp_path / "data")
    words, ck = words_of(tmp_path, "found", "--memory", "local"), tmp_path / "ck"
    run(tmp_path / "whole", words_of(tmp_path, "right", "--memory", "local"))
    with Job(ck, words, resume="never") as job:
        job.workers[0].wait_for("pass 2, ", 60)
        job.kill()
    run(tmp_path / "other", words, resume=folders.newest(str(ck))[0], number="1\n")
    assert bits(tmp_path / "right") == bits(tmp_path / "found")
    assert folders.read_list(folders.newest(str(tmp_path / "other"))[0])["job"] == int(NUMBER, 16)


@pytest.mark.parametrize("words, steps, places", [
    (["--feed", "--passes", 4], 10, [(2, 2), (3, 4), (4, 6)]),  # worker 0 has 7 batches in a pass, and worker 1 has 8
    (["--feed", "--passes", 4, "--batches", 0], 2, None),
    (["--passes", 4], 60, None), (["--memory", "local", "--threads", "2", "--noise", "0"], 20, None)],
    ids=["fed", "the first worker has nothing", "files", "two threads"])
def test_fewer_batches_in_a_pass_than_between_two_checkpoints(tmp_path, words, steps, places):
    """Batches count on over passes; workers with unlike many of them meet at the same steps."""
    make_data(tmp_path / "data")
    run(tmp_path / "whole", words_of(tmp_path, "right", *words))
    ck = tmp_path / "ck"
    with Job(ck, words_of(tmp_path, "found", *words), resume="never", steps=steps, FLAGS_checkpoint_keep="99") as job:
        job.end()
    made = [folders.read_list(folders.path_of(str(ck), number)) for number in folders.numbers(str(ck))]
    assert made and (places is None or places == [(each["pass"], each["batches"]) for each in made])
    if "--threads" not in words:  # two threads are Hogwild
        assert bits(tmp_path / "right") == bits(tmp_path / "found")
    for number in folders.numbers(str(ck))[1:]:
        shutil.rmtree(folders.path_of(str(ck), number))
    run(ck, words_of(tmp_path, "again", *words), steps=steps, servers=1)
    if "--threads" not in words:
        assert bits(tmp_path / "right") == bits(tmp_path / "again")


# ---- what is refused, and told ----


def test_no_checkpoint_was_due(tmp_path):
    make_data(tmp_path / "data", files=2)
    outputs = run(tmp_path / "ck", words_of(tmp_path, "found", "--feed"), steps=100)
    assert "no checkpoint was made: each thread has had 24 batches at most, and FLAGS_checkpoint_steps is 100" in outputs[0]
    assert "no checkpoint" not in outputs[1]
    outputs = run(tmp_path / "ck2", words_of(tmp_path, "found", "--passes", 0, "--warm", 3), steps=2)
    assert "no checkpoint was made: all training was outside of passes over data" in outputs[0]


SYNC, GEO, TABLE = ["--noise", "1"], ["--strategy", "geo"], ["--table"]


@pytest.mark.parametrize("before, after, said", [
    (SYNC, GEO, "the mode was sync, and is geo"), (GEO, SYNC, "the mode was geo, and is sync"),
    (["--strategy", "async"], SYNC, "the mode was async, and is sync"),
    (SYNC, ["--noise", "0"], "the parameter 'batch_norm_0.b_0' was float32 [16] by adam, and is not there"),
    (["--noise", "0"], SYNC, "the parameter 'batch_norm_0.b_0' was not there, and is float32 [16] by adam"),
    (TABLE, SYNC, "the parameter 'batch_norm_0.b_0' was float32 [16] by adagrad, and is float32 [16] by adam"),
    (SYNC, ["--constant"], "what schedules of the learning rate keep was int64 [1], and is not there"),
    (["--constant"], SYNC, "what schedules of the learning rate keep was not there, and is int64 [1]")])
def test_a_job_that_trains_something_else(tmp_path, before, after, said):
    """All processes end at once, and say why."""
    make_data(tmp_path / "data", files=2)
    ck = tmp_path / "ck"
    with Job(ck, words_of(tmp_path, "found", "--feed", *before), resume="never", servers=1, steps=4) as job:
        job.workers[0].wait_for("pass 2, ", 60)
        job.kill()
    with Job(ck, words_of(tmp_path, "found", "--feed", *after), FLAGS_rpc_deadline="600000") as job:
        for process in job.workers + job.servers:
            assert process.end(60) and said in process.output(), process.output()


@pytest.mark.parametrize("words", [[], ["--constant"], ["--constant", *GEO]], ids=["of a schedule", "constant", "with geo"])
def test_another_learning_rate(tmp_path, words):
    """Counts from the checkpoint on. One that is the same gives the same."""
    make_data(tmp_path / "data", files=2)
    ck, words = tmp_path / "ck", ["--feed", *words]
    with Job(ck, words_of(tmp_path, "right", *words), resume="never", steps=4, FLAGS_checkpoint_keep="99") as job:
        job.end()
    for number in folders.numbers(str(ck))[1:]:
        shutil.rmtree(folders.path_of(str(ck), number))
    shutil.copytree(ck, tmp_path / "copy")
    run(ck, words_of(tmp_path, "found", *words, "--rate", 0), FLAGS_checkpoint_keep="99")
    run(tmp_path / "copy", words_of(tmp_path, "same", *words))
    right, found = bits(tmp_path / "right"), bits(tmp_path / "found")
    assert found["w1"] == (Path(folders.path_of(str(ck), 1)) / "model" / "w1").read_bytes() != right["w1"]
    assert "--strategy" in words or right == bits(tmp_path / "same")


@pytest.mark.parametrize("which", ["model/w1", "worker-1/values/0"])
def test_a_flipped_bit(made, tmp_path, which):
    """Sizes are as they were. The first worker, or that worker, says so at once, and servers what they load."""
    job, ck = copy(made, tmp_path)
    path = Path(folders.newest(str(ck))[0]) / which
    held = bytearray(path.read_bytes())
    held[-1] ^= 1
    path.write_bytes(held)
    with Job(ck, words_of(job, "found"), FLAGS_rpc_deadline="600000") as processes:
        ends = [processes.workers[0], *(processes.servers if which == "model/w1" else processes.workers)]
        for process in ends:
            assert process.end(60) and f"{which}' is damaged: its checksum is not the one" in process.output(), process.output()


def test_two_jobs_with_one_folder(tmp_path):
    """At once: the second is told, and the first one's checkpoints are its own."""
    make_data(tmp_path / "data", files=4)
    ck, go = tmp_path / "ck", tmp_path / "go"
    with Job(ck, words_of(tmp_path, "found", "--wait", go), resume="never") as job:
        job.workers[0].wait_for("checkpoint-00000001:", 60)
        with Job(ck, words_of(tmp_path, "other")) as second:
            assert second.workers[0].end(60)
            told, first = second.workers[0].output(), job.workers[0].pid
            assert f"is where another job that runs now has its checkpoints (its first worker is process {first} on" in told
        go.touch()
        job.end()
    assert folders.damage(folders.newest(str(ck))[0], True) is None and not (tmp_path / "other").exists()


def test_other_data_in_memory(made, tmp_path):
    make_data(tmp_path / "data", files=4)
    ck, words = tmp_path / "ck", words_of(tmp_path, "found", "--memory", "local")
    with Job(ck, words, resume="never") as job:
        job.workers[0].wait_for("pass 2, ", 60)
        job.kill()
    fails(ck, [*words, "--reverse"], "the files that were loaded, and their sizes was [['cat', ['part-")
    fails(ck, words_of(tmp_path, "found", "--memory", "twice"), "what shuffled them (a checksum) was ")


def test_other_items_of_a_reader(tmp_path):
    ck, words = tmp_path / "ck", words_of(tmp_path, "found", "--feed", "--shuffle")
    make_data(tmp_path / "data", files=2)
    with Job(ck, words, resume="never") as job:
        job.workers[0].wait_for("pass 2, ", 60)
        job.kill()
    fails(ck, words_of(tmp_path, "found", "--feed"), "items of this reader, and the last of them is another one now")


@pytest.mark.parametrize("strategy", ["sync", "geo"])
def test_training_that_no_pass_counts(tmp_path, strategy):
    make_data(tmp_path / "data", files=4)
    ck, words = tmp_path / "ck", words_of(tmp_path, "found", "--strategy", strategy, "--warm", 3)
    with Job(ck, words, resume="never") as job:
        job.workers[0].wait_for("checkpoint-00000002:", 60)
        job.kill()
    fails(ck, words, "this script trains outside of its passes over data, and its job goes on")


def test_a_state_that_is_none(tmp_path):
    path = tmp_path / "state.json"
    for text, said in (("{", "Expecting"), ("[]", "list"), ("{}", "it lacks 'pass'"),
                       (json.dumps({"pass": "x"}), "its 'pass' is 'x'")):
        path.write_text(text)
        with pytest.raises(ValueError, match=f"the checkpoint's file .* cannot be read: .*{re.escape(said)}"):
            folders.read_state(str(path))


def fails(folder, words, text, **options):
    """A worker of such a job ends with this error."""
    with Job(folder, words, **options) as job:
        ended = [worker.end(60) for worker in job.workers]
        assert any(ended) and text in "".join(process.output() for process in job.workers + job.servers), job.workers[0].output()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A job that was killed in its second pass: the folder of its data, and that of its checkpoints."""
    folder = tmp_path_factory.mktemp("made")
    make_data(folder / "data", files=4)
    words = words_of(folder, "found", "--each", folder / "pass")
    with Job(folder / "ck", words, resume="never") as job:
        job.workers[0].wait_for("pass 2, ", 60)
        job.kill()
    return folder


def copy(made, tmp_path):
    shutil.copytree(made, tmp_path / "job")
    return tmp_path / "job", tmp_path / "job" / "ck"


def test_what_a_script_saved_in_passes_before_stays(made, tmp_path):
    job, ck = copy(made, tmp_path)
    before = bits(job / "pass-0")
    outputs = run(ck, words_of(job, "found", "--each", job / "pass"))
    assert "pass 1 (train) is in the checkpoint: it is not made again." in outputs[1]
    assert re.search(r"saving to '.*pass-0' is passed over: the checkpoint that this job goes on from was made later.", outputs[0])
    assert bits(job / "pass-0") == before and bits(job / "pass-2") == bits(job / "found") != before


def test_a_script_with_fewer_passes_has_done_nothing(made, tmp_path):
    job, ck = copy(made, tmp_path)
    fails(ck, words_of(job, "found", "--passes", 1), "was made in pass 2 of the data, and this script ended after 1")
    assert not (job / "found").exists()


def test_other_files_in_the_middle_of_a_pass(made, tmp_path):
    job, ck = copy(made, tmp_path)
    (job / "data" / "part-0").rename(job / "data" / "part-9")
    fails(ck, words_of(job, "found"), "made in the middle of a pass over other data: the list of files and sizes was [")


def test_another_number_of_workers_or_of_threads(made, tmp_path):
    job, ck = copy(made, tmp_path)
    fails(ck, words_of(job, "found"), "is of a job with 2 workers, and this one has 3", workers=3)
    fails(ck, words_of(job, "found", "--threads", 2), "the number of threads was 1, and is 2")


def test_a_folder_with_checkpoints_is_no_place_for_a_new_job(made, tmp_path):
    job, ck = copy(made, tmp_path)
    fails(ck, words_of(job, "found"), "has checkpoints of a job, and a job that begins anew would take their place", resume="never")


def test_servers_that_keep_a_state_of_their_own(made, tmp_path):
    job, ck = copy(made, tmp_path)
    with Job(ck, words_of(job, "found"), FLAGS_ps_dir=str(tmp_path / "kept"), FLAGS_rpc_deadline="3000") as processes:
        assert processes.servers[0].end(60) == 1
        assert "unset one of FLAGS_resume and FLAGS_ps_dir" in processes.servers[0].output()


def test_processes_that_begin_with_different_checkpoints(made, tmp_path):
    """The folder of servers is another one."""
    job, ck = copy(made, tmp_path)
    with Job(ck, words_of(job, "found"), FLAGS_rpc_deadline="8000") as processes:
        for server in processes.servers:
            server.close()
        processes.servers.clear()
        processes.env["FLAGS_checkpoint_dir"] = str(tmp_path / "other")
        processes.start_servers(*words_of(job, "found"))
        assert all(worker.end(60) for worker in processes.workers)
        told = processes.workers[0].output()
        assert "the trainer has a checkpoint to go on from (checkpoint-" in told and "which the server has not" in told


def test_one_worker_is_started_again_alone(made, tmp_path):
    job, ck = copy(made, tmp_path)
    with Job(ck, words_of(job, "found", "--passes", 40), FLAGS_ps_on_trainer_loss="wait", FLAGS_checkpoint_keep="9") as processes:
        processes.workers[0].wait_for("pass 3, ", 60)
        chosen = re.search(r"goes on from the checkpoint (\S+):", processes.workers[1].output()).group(1)
        processes.workers.pop().close()
        env = {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": "1", "FLAGS_resume": chosen}
        again = processes._start("worker-1", words_of(job, "found", "--passes", 40), env)
        processes.workers.append(again)
        assert again.end(60) == 1
        assert re.search(r"servers are at step \d+ of a job that this worker was in", again.output()), again.output()


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_training(tmp_path):
    make_data(tmp_path / "data", files=4)
    with Job(tmp_path / "ck", words_of(tmp_path, "found"), resume="never") as job:
        job.workers[0].wait_for("checkpoint-00000001:", 60)
        (tmp_path / "ck").rename(tmp_path / "away")
        (tmp_path / "ck").write_text("no folder")
        job.end()
        assert "could not be written, and training goes on without it" in job.workers[0].output()
    assert (tmp_path / "found").is_dir()


def test_the_first_difference():
    assert jobs.difference({"a": "1", "b": "2"}, {"b": "2", "a": "1"}) == ""
    assert jobs.difference({"a": "1", "the mode": "geo"}, {"the mode": "sync"}) == "the mode was geo, and is sync"
    assert jobs.difference({"b": "2"}, {"b": "2", "a": "1"}) == "a was not there, and is 1"


def test_other_variables_of_a_worker_alone(made, tmp_path):
    """The statistics of a norm have other names: no server knows them."""
    job, ck = copy(made, tmp_path)
    fails(ck, words_of(job, "found", "--mean", "another"), "the variable 'another' was not there, and is float32 [16]")


# ---- folders ----


def small(folder, number, text="abc", workers=1):
    path = Path(folders.path_of(folder, number, folders.PART))
    (path / "model").mkdir(parents=True)
    (path / "model" / "w").write_text(text)
    folders.write_list(path, {"workers": workers, "job": 7, "trains": {}})
    path.rename(folders.path_of(folder, number))
    return Path(folders.path_of(folder, number))


def test_the_newest_whole_one(tmp_path):
    assert folders.choose(tmp_path, "auto") == (None, [])
    with pytest.raises(ValueError, match="FLAGS_resume=must, and there is no checkpoint"):
        folders.choose(tmp_path, "must")
    first, second, third, fourth = (small(tmp_path, number) for number in (1, 2, 9, 10))
    assert folders.choose(str(tmp_path), "auto") == (str(fourth), [])
    (fourth / "model" / "w").write_text("abcd")
    (third / "model" / "w").unlink()
    (second / "checkpoint.json").write_text("{")
    found, wrong = folders.choose(str(tmp_path), "must")
    assert found == str(first) and len(wrong) == 3
    assert "has 4 bytes, and had 3" in wrong[0] and "No such file" in wrong[1] and "cannot be read" not in wrong[0]
    (first / "model" / "w").write_text("abx")  # as long as before
    assert folders.choose(str(tmp_path), "auto")[0] == str(first)
    with pytest.raises(ValueError, match="no checkpoint in .* is whole"):
        folders.choose(str(tmp_path), "auto", reads_all=True)
    assert "its checksum is not the one" in folders.damage(str(first), True)


def test_a_list_without_files(tmp_path):
    path = small(tmp_path, 1)
    assert "lists no file of 'worker-0'" in folders.damage(str(path), True, "worker-0")
    assert folders.damage(str(path), True, "model") is None and folders.bytes_of(str(path)) == 3
    (path / "checkpoint.json").write_text(json.dumps({**folders.read_list(str(path)), "files": {}}))
    with pytest.raises(ValueError, match="it lists no files"):
        folders.choose(str(tmp_path), "auto")


def test_what_is_said_of_resume(tmp_path):
    with pytest.raises(ValueError, match="Did you mean 'auto'"):
        folders.choose(tmp_path, "aut")
    with pytest.raises(ValueError, match="FLAGS_checkpoint_dir says in which folder"):
        folders.choose("", "auto")
    path = small(tmp_path, 3)
    assert folders.choose("", f"{path}/") == (str(path), [])
    with pytest.raises(ValueError, match="its version is 7, and this package reads 2"):
        (path / "checkpoint.json").write_text('{"version": 7}')
        folders.choose("", str(path))


def test_old_ones_go(tmp_path):
    for number in (1, 2, 3):
        small(tmp_path, number)
    Path(folders.path_of(tmp_path, 7, folders.PART)).mkdir()
    assert folders.next_number(tmp_path) == 8
    folders.remove_old(tmp_path, 2)
    assert folders.numbers(tmp_path) == [2, 3] and sorted(os.listdir(tmp_path)) == ["checkpoint-00000002", "checkpoint-00000003"]


def test_the_number_of_a_job(tmp_path):
    number = folders.job_number(str(tmp_path / "new"))
    assert folders.job_number(str(tmp_path / "new")) == number and os.listdir(tmp_path / "new") == ["job"]
    (tmp_path / "new" / "job").write_text("nonsense")
    with pytest.raises(ValueError, match="does not have the number of a job"):
        folders.job_number(str(tmp_path / "new"))
