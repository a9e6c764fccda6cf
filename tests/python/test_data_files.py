"""Training from files of samples: fluid.DatasetFactory, Executor.train_from_dataset."""

import bz2
import contextlib
import gzip
import lzma
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import paddle.fluid as fluid

ROWS, IDS = 57, 20


@pytest.fixture(autouse=True)
def fresh():
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        yield


def wait_for(path):
    wait_until(path.exists)


def wait_until(is_so):
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


class Net:
    """A small net with sequences of ids, dense numbers and a label, its samples, and an executor with its startup Program run."""

    def __init__(self, tmp_path, files=1, optimizer=True):
        random = np.random.RandomState(1)
        self.words = fluid.data("words", [None, 1], dtype="int64", lod_level=1)
        self.dense = fluid.data("dense", [None, 3], dtype="float32")
        self.label = fluid.data("label", [None, 1], dtype="float32")
        table = fluid.ParamAttr(name="table", initializer=fluid.initializer.Uniform(-1, 1, seed=3))
        pooled = fluid.layers.sequence_pool(fluid.layers.embedding(self.words, [IDS, 4], is_sparse=True, param_attr=table), "sum")
        weight = fluid.ParamAttr(name="w", initializer=fluid.initializer.Uniform(-1, 1, seed=4))
        guess = fluid.layers.fc([fluid.layers.concat([pooled, self.dense], 1)], 1, param_attr=weight)
        self.loss = fluid.layers.mean(fluid.layers.square_error_cost(guess, self.label))
        if optimizer:
            fluid.optimizer.SGD(0.05).minimize(self.loss)
        self.samples = [(random.randint(1, IDS, random.randint(1, 5)), random.uniform(-1, 1, 3).astype("float32"),
                         np.float32(random.uniform(-1, 1))) for _ in range(ROWS)]
        self.paths = []
        for k in range(files):
            self.paths.append(str(tmp_path / f"part-{k}"))
            with open(self.paths[-1], "w") as file:
                file.writelines(map(self.line, self.samples[k::files]))
        self.exe = fluid.Executor(fluid.CPUPlace())
        self.exe.run(fluid.default_startup_program())

    @staticmethod
    def line(sample) -> str:
        words, dense, label = sample
        return f"{len(words)} {' '.join(map(str, words))} 3 {' '.join(map(repr, dense.tolist()))} 1 {float(label)!r}\n"

    def dataset(self, kind="QueueDataset", batch=8, threads=1):
        dataset = fluid.DatasetFactory().create_dataset(kind)
        dataset.set_use_var([self.words, self.dense, self.label])
        dataset.set_filelist(self.paths)
        dataset.set_batch_size(batch)
        dataset.set_thread(threads)
        return dataset

    def run_fed(self, batch=8):
        """The losses of the same batches through Executor.run."""
        losses = []
        for begin in range(0, ROWS, batch):
            part = self.samples[begin : begin + batch]
            words = np.concatenate([each[0] for each in part])[:, None].astype("int64")
            feed = {"words": fluid.create_lod_tensor(words, [[len(each[0]) for each in part]], fluid.CPUPlace()),
                    "dense": np.stack([each[1] for each in part]), "label": np.array([[each[2]] for each in part], "float32")}
            losses.append(self.exe.run(feed=feed, fetch_list=[self.loss])[0].item())
        return losses

    def values(self):
        return {name: np.array(fluid.global_scope().find_var(name).get_tensor()) for name in ("table", "w")}


def printed(capfd) -> list[float]:
    return [float(line.rpartition(" ")[2]) for line in capfd.readouterr().out.splitlines() if line.startswith("batch ")]


@pytest.mark.parametrize("kind", ["QueueDataset", "InMemoryDataset"])
def test_trains_as_fed_batches_do(tmp_path, kind, capfd):
    net = Net(tmp_path)
    dataset = net.dataset(kind)
    if kind == "InMemoryDataset":
        dataset.load_into_memory()
        assert dataset.get_memory_data_size() == dataset.get_shuffle_data_size() == ROWS
    start = net.values()
    assert net.exe.train_from_dataset(dataset=dataset, fetch_list=[net.loss], fetch_info=["loss"], print_period=1) is None
    losses, trained = printed(capfd), net.values()
    for name, value in start.items():
        fluid.global_scope().find_var(name).get_tensor().set(value, fluid.CPUPlace())
    fluid.global_scope().find_var("fc_0.b_0").get_tensor().set(np.zeros(1, "float32"), fluid.CPUPlace())
    assert losses == [float(f"{loss:.6g}") for loss in net.run_fed()]
    for name, value in net.values().items():
        np.testing.assert_array_equal(trained[name], value)
    # A second pass goes on.
    net.exe.train_from_dataset(dataset=dataset)
    assert not np.array_equal(net.values()["w"], trained["w"])


def test_lines_are_printed_every_so_many_batches(tmp_path, capfd):
    net = Net(tmp_path)
    net.exe.train_from_dataset(dataset=net.dataset(), fetch_list=[net.loss, "w"], print_period=3)
    lines = [line for line in capfd.readouterr().out.splitlines() if line.startswith("batch")]
    assert [line.split("\t")[0] for line in lines] == ["batch 3", "batch 6"]
    assert lines[0].split("\t")[1].startswith("mean_0.tmp_0: ")
    with pytest.raises(ValueError, match="fetch_info has 2 texts for the 1 variables"):
        net.exe.train_from_dataset(dataset=net.dataset(), fetch_list=[net.loss], fetch_info=["a", "b"])
    with pytest.raises(ValueError, match="print_period=0"):
        net.exe.train_from_dataset(dataset=net.dataset(), fetch_list=[net.loss], print_period=0)


@pytest.mark.parametrize("kind", ["QueueDataset", "InMemoryDataset"])
def test_several_threads_train_on_the_same_parameters(tmp_path, kind):
    net = Net(tmp_path, files=5)
    dataset = net.dataset(kind, threads=3)
    if kind == "InMemoryDataset":
        dataset.load_into_memory()
    before = np.mean(net.run_fed())
    for _ in range(40):
        net.exe.train_from_dataset(dataset=dataset)
    assert np.mean(net.run_fed()) < before / 3


def test_inference_changes_nothing(tmp_path, capfd):
    net = Net(tmp_path)
    before = net.values()
    net.exe.infer_from_dataset(dataset=net.dataset(), fetch_list=[net.loss], print_period=1)
    assert len(printed(capfd)) == 8
    for name, value in net.values().items():
        np.testing.assert_array_equal(before[name], value)


def test_a_fetch_handler(tmp_path):
    net, seen = Net(tmp_path), []

    class Keep(fluid.executor.FetchHandler):
        def handler(self, res_dict):
            seen.append(res_dict)

    net.exe.train_from_dataset(dataset=net.dataset(batch=1), fetch_handler=Keep({"the loss": net.loss}, period_secs=0))
    assert len(seen) == ROWS and all(np.isfinite(each["the loss"]).all() for each in seen)

    class Fail(fluid.executor.FetchHandler):
        def handler(self, res_dict):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        for _ in range(10000):  # what a thread raises ends the run soon, not at once
            net.exe.train_from_dataset(dataset=net.dataset(batch=1), fetch_handler=Fail({"loss": net.loss}, period_secs=0))


@pytest.mark.parametrize("kind", ["QueueDataset", "InMemoryDataset"])
def test_what_the_data_set_feeds_can_be_fetched(tmp_path, kind, capfd):
    net, seen = Net(tmp_path), []
    dataset = net.dataset(kind, batch=ROWS)
    if kind == "InMemoryDataset":
        dataset.load_into_memory()

    class Keep(fluid.executor.FetchHandler):
        def handler(self, res_dict):
            seen.append(res_dict)

    handler = Keep({"words": net.words, "dense": net.dense, "label": net.label}, period_secs=0)
    net.exe.train_from_dataset(dataset=dataset, fetch_list=[net.label], print_period=1, fetch_handler=handler)
    assert capfd.readouterr().out.startswith("batch 1\tlabel: [[")
    np.testing.assert_array_equal(seen[0]["words"].ravel(), np.concatenate([each[0] for each in net.samples]))
    np.testing.assert_array_equal(seen[0]["dense"], np.stack([each[1] for each in net.samples]))
    np.testing.assert_array_equal(seen[0]["label"].ravel(), [each[2] for each in net.samples])


# ---- in memory ----


def test_shuffling(tmp_path):
    net = Net(tmp_path, files=3)
    orders = []
    for threads in (1, 3):
        dataset = net.dataset("InMemoryDataset", threads=threads, batch=ROWS)
        dataset.load_into_memory()
        dataset.set_shuffle_seed(5)
        dataset.local_shuffle()
        orders.append(labels(net, dataset))
    assert orders[0] == orders[1] != labels_of_files(net)
    assert sorted(orders[0]) == sorted(labels_of_files(net))
    dataset.set_shuffle_seed(None)
    dataset.global_shuffle()
    assert labels(net, dataset) != orders[0]
    dataset.set_fea_eval(100, True)
    before = labels(net, dataset)
    dataset.slots_shuffle(["label"])
    assert sorted(labels(net, dataset)) == sorted(before) != before
    with pytest.raises(Exception, match="no variable 'nothing' to shuffle"):
        dataset.slots_shuffle(["nothing"])
    for method in ("local_shuffle", "global_shuffle"):
        with pytest.raises(NotImplementedError, match="please use InMemoryDataset"):
            getattr(net.dataset(), method)()
    with pytest.raises(AttributeError, match="no attribute 'load_into_memory': it reads files while it trains; InMemoryDataset"):
        net.dataset().load_into_memory()
    with pytest.raises(AttributeError, match="no attribute 'set_batchsize'$"):
        net.dataset().set_batchsize(8)


def labels_of_files(net):
    return [round(float(line.split()[-1]), 7) for path in net.paths for line in open(path)]


def labels(net, dataset):
    """The labels of a data set's only batch, in their order."""
    found = []

    class Keep(fluid.executor.FetchHandler):
        def handler(self, res_dict):
            found.extend(round(float(each), 7) for each in res_dict["label"].ravel())

    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()):
        label = fluid.data("label", [None, 1], dtype="float32")
        same = fluid.layers.scale(label, 1.0)
    net.exe.train_from_dataset(program, dataset, thread=1, fetch_handler=Keep({"label": same}, period_secs=0))
    return found


def test_preloading_and_release(tmp_path):
    net = Net(tmp_path, files=2)
    dataset = net.dataset("InMemoryDataset")
    dataset.preload_into_memory(2)
    dataset.wait_preload_done()
    assert dataset.get_memory_data_size() == ROWS
    dataset.release_memory()
    assert dataset.get_memory_data_size() == 0
    with pytest.raises(ValueError, match=r"call load_into_memory\(\) first"):
        net.exe.train_from_dataset(dataset=dataset)
    dataset.set_filelist([str(tmp_path / "nowhere")])
    dataset.preload_into_memory()
    with pytest.raises(Exception, match="nowhere' cannot be opened"):
        dataset.wait_preload_done()


def test_a_warning_of_no_files_is_of_the_scripts_line(tmp_path):
    net = Net(tmp_path)
    calls = {"load_into_memory": "nothing is loaded", "preload_into_memory": "nothing is loaded", "train": "nothing is trained"}
    for name, what in calls.items():
        dataset = net.dataset("InMemoryDataset")
        dataset.set_filelist([])
        with pytest.warns(UserWarning, match=f"no files.*{what} here") as told:
            net.exe.train_from_dataset(dataset=dataset) if name == "train" else getattr(dataset, name)()
        assert [each.filename for each in told] == [__file__]


def test_no_more_files_than_those_in_memory(tmp_path):
    """The next files of a worker may be none: that is told, and its samples stay."""
    net = Net(tmp_path)
    dataset = net.dataset("InMemoryDataset")
    dataset.load_into_memory()
    dataset.set_filelist([])
    for load in (dataset.load_into_memory, dataset.preload_into_memory):
        with pytest.warns(UserWarning, match="has no files .* so nothing is loaded here"):
            load()
        dataset.wait_preload_done()
        assert dataset.get_memory_data_size() == ROWS
    assert sorted(labels(net, dataset)) == sorted(labels_of_files(net))


def test_loading_again_adds_samples(tmp_path):
    net = Net(tmp_path)
    dataset = net.dataset("InMemoryDataset")
    for times in (1, 2):
        dataset.load_into_memory()
        assert dataset.get_memory_data_size() == times * ROWS
    dataset.set_use_var([net.words, net.dense])
    with pytest.raises(Exception, match=r"has samples in memory; call release_memory\(\)"):
        dataset.load_into_memory()
    dataset.set_use_var([net.words, net.dense, net.label])
    net.exe.train_from_dataset(dataset=dataset)
    dataset.release_memory()
    dataset.set_use_var([net.words, net.dense])
    dataset.load_into_memory()
    assert dataset.get_memory_data_size() == ROWS


def test_nothing_else_goes_on_while_samples_are_preloaded(tmp_path):
    net = Net(tmp_path)
    begun, mark = tmp_path / "begun", tmp_path / "go on"
    dataset = net.dataset("InMemoryDataset")
    dataset.load_into_memory()
    dataset.set_fea_eval(1, True)
    dataset.set_pipe_command(f"touch '{begun}'; while [ ! -e '{mark}' ]; do sleep 0.01; done; cat")
    dataset.preload_into_memory()
    try:
        for call in (dataset.local_shuffle, dataset.global_shuffle, dataset.release_memory, dataset.load_into_memory,
                     dataset.preload_into_memory, lambda: dataset.slots_shuffle(["label"])):
            with pytest.raises(RuntimeError, match=r"call wait_preload_done\(\) first, then "):
                call()
        wait_for(begun)
        # The engine itself refuses what does not come by these methods.
        for call in (dataset.dataset.drop, dataset.dataset.load, lambda: dataset.dataset.exchange(["label"], 1),
                     lambda: dataset.dataset.use_command("cat"), lambda: dataset.dataset.use_files(net.paths),
                     lambda: dataset.dataset.set_sizes(1, 1), lambda: dataset.dataset.expect(True, False),
                     lambda: dataset.dataset.use_slots([("x", True, None)]), lambda: dataset.dataset.merge(1),
                     lambda: dataset.dataset.train(fluid.default_main_program(), fluid.global_scope(), 1, [], 1, 0, None, None)):
            with pytest.raises(Exception, match=r"wait for its end \(wait_preload_done\(\) after preload_into_memory\(\)\), then "):
                call()
        assert dataset.get_memory_data_size() == ROWS
    finally:
        mark.touch()
    dataset.wait_preload_done()
    assert dataset.get_memory_data_size() == 2 * ROWS
    dataset.local_shuffle()
    dataset.release_memory()
    assert dataset.get_memory_data_size() == 0


@pytest.mark.parametrize("kind", ["QueueDataset", "InMemoryDataset"])
def test_nothing_else_goes_on_while_it_is_trained_on(tmp_path, kind):
    net, refused = Net(tmp_path), []
    dataset = net.dataset(kind, batch=1)
    dataset.set_pipe_command("cat | cat")
    if kind == "InMemoryDataset":
        dataset.load_into_memory()
        dataset.set_fea_eval(1, True)
    calls = [lambda: net.exe.infer_from_dataset(dataset=dataset), lambda: dataset.dataset.use_command("exit 3"),
             lambda: dataset.dataset.use_files([str(tmp_path / "nowhere")]), lambda: dataset.dataset.use_slots([]),
             lambda: dataset.dataset.expect(True, True)]
    if kind == "InMemoryDataset":
        calls += [dataset.load_into_memory, dataset.local_shuffle, dataset.release_memory, lambda: dataset.slots_shuffle(["label"])]

    class Try(fluid.executor.FetchHandler):
        def handler(self, res_dict):
            for call in calls:
                with pytest.raises(Exception, match="the data set is being trained on; .* before or after"):
                    call()
                refused.append(call)

    net.exe.train_from_dataset(dataset=dataset, fetch_handler=Try({"loss": net.loss}, period_secs=0))
    assert len(refused) == ROWS * len(calls)
    net.exe.train_from_dataset(dataset=dataset)


@pytest.mark.parametrize("kind", ["QueueDataset", "InMemoryDataset"])
def test_all_samples_in_one_batch(tmp_path, kind, capfd):
    net = Net(tmp_path, files=3)
    for size in (sys.maxsize, 2**62):
        dataset = net.dataset(kind, batch=size, threads=3)
        if kind == "InMemoryDataset":
            dataset.load_into_memory()
        seen = labels(net, dataset)
        if kind == "InMemoryDataset":
            assert seen == labels_of_files(net)
            for threads in (1, 2, 3):
                net.exe.infer_from_dataset(dataset=dataset, thread=threads)
        else:
            assert sorted(seen) == sorted(labels_of_files(net))


def test_other_variables_than_those_that_were_loaded(tmp_path):
    net = Net(tmp_path)
    dataset = net.dataset("InMemoryDataset")
    dataset.load_into_memory()
    dataset.set_use_var([net.words, net.dense])
    with pytest.raises(ValueError, match="loaded, which are words, dense, label: call release_memory"):
        net.exe.train_from_dataset(dataset=dataset)
    with pytest.raises(ValueError, match="zero byte"):
        dataset.set_filelist(["a\0b"])


def test_samples_of_one_id_are_merged(tmp_path):
    x = fluid.data("x", [None, 1], dtype="int64", lod_level=1)
    path = tmp_path / "ids"
    path.write_text("1 a 1 5\n1 b 1 6\n1 a 2 7 8\n")
    dataset = fluid.DatasetFactory().create_dataset("InMemoryDataset")
    dataset.set_use_var([x])
    dataset.set_filelist([str(path)])
    dataset.set_merge_by_lineid(2)
    dataset.load_into_memory()
    with pytest.warns(UserWarning, match="1 samples were left out"):
        dataset.global_shuffle()
    for _ in range(2):  # again, as before each epoch: what is one sample now stays one
        assert dataset.get_memory_data_size() == 1
        dataset.global_shuffle()
    dataset.load_into_memory()
    with pytest.warns(UserWarning, match="1 samples were left out"):
        dataset.global_shuffle()
    assert dataset.get_memory_data_size() == 2


# ---- files and commands ----


def test_patterns_of_files(tmp_path):
    net = Net(tmp_path, files=3)
    dataset = net.dataset("InMemoryDataset")
    dataset.set_filelist([str(tmp_path / "part-*")])
    assert dataset.filelist == net.paths
    with pytest.raises(ValueError, match="no file is like"):
        dataset.set_filelist([str(tmp_path / "other-*")])
    with pytest.raises(TypeError, match="wants a list of paths"):
        dataset.set_filelist(str(tmp_path / "part-0"))


@pytest.mark.parametrize("packs, unpacks", [(gzip, "zcat"), (bz2, "bzcat"), (lzma, "xzcat")])
def test_packed_files(tmp_path, packs, unpacks):
    net = Net(tmp_path)
    packed = tmp_path / "packed"
    packed.write_bytes(packs.compress((tmp_path / "part-0").read_bytes()))
    dataset = net.dataset("InMemoryDataset")
    dataset.set_filelist([str(packed)])
    with pytest.raises(fluid.core.FormatError, match=rf'is packed by .*: set_pipe_command."{unpacks}". unpacks it'):
        dataset.load_into_memory()
    if shutil.which(unpacks):
        dataset.set_pipe_command(unpacks)
        dataset.load_into_memory()
        assert dataset.get_memory_data_size() == ROWS


def test_a_pipe_command(tmp_path):
    net = Net(tmp_path)
    dataset = net.dataset("InMemoryDataset")
    dataset.set_pipe_command("head -n 10 | grep -v '^$'")
    dataset.load_into_memory()
    assert dataset.get_memory_data_size() == 10
    dataset = net.dataset()
    dataset.set_pipe_command("cat; echo no such luck >&2; exit 7")
    with pytest.raises(Exception, match="(?s)ended with status 7 while it read .*it said: no such luck"):
        net.exe.train_from_dataset(dataset=dataset)


@pytest.mark.parametrize("command, status", [("cat; echo no such luck >&2; exit 7", 7),
                                             ("(head -n 5; echo no such luck >&2; exit 7) | cat", 7),
                                             ("(cat; echo no such luck >&2; exit 7) | cat | cat", 7)])
def test_any_part_of_a_pipe_command_may_fail(tmp_path, command, status):
    dataset = Net(tmp_path).dataset("InMemoryDataset")
    dataset.set_pipe_command(command)
    with pytest.raises(Exception, match=f"(?s)ended with status {status} while it read .*it said: no such luck"):
        dataset.load_into_memory()


def test_the_end_of_a_pipe_command_may_have_enough(tmp_path):
    """What is before it ends by a signal then, and nothing failed."""
    dataset = Net(tmp_path).dataset("InMemoryDataset")
    dataset.set_pipe_command("(cat; yes) | cat | head -n 3")
    dataset.load_into_memory()
    assert dataset.get_memory_data_size() == 3


def test_a_pipe_command_where_there_is_no_bash(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    for name in ("sh", "cat", "head"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))
    net = Net(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    dataset = net.dataset("InMemoryDataset")
    dataset.set_pipe_command("head -n 9 | cat")
    dataset.load_into_memory()
    assert dataset.get_memory_data_size() == 9
    dataset.set_pipe_command("echo \"$BASH_VERSION no such luck\" >&2; exit 7")
    with fails_with("(?s)ended with status 7 while it read .*it said:  no such luck"):
        dataset.load_into_memory()


def test_lines_that_cannot_be_read(tmp_path, capfd):
    net = Net(tmp_path)
    with open(net.paths[0], "a") as file:
        file.write("1 5 3 1 2\n1 5 3 1 2 3 1 0.5\n")
    dataset = net.dataset("InMemoryDataset")
    dataset.load_into_memory()
    assert dataset.get_memory_data_size() == ROWS + 1
    said = capfd.readouterr().err
    assert f"part-0:{ROWS + 1}: this line is left out: slot 'dense' is said to have 3 numbers" in said
    assert said.endswith(f"1 of {len(net.paths) * ROWS + 2} lines could not be read and was left out\n"), said
    with open(net.paths[0], "w") as file:
        file.write("1.5 of nothing\n" * 200)
    with pytest.raises(Exception, match="lines cannot be read.*set_use_var.*part-0:1: found '1.5' where the count of slot 'words'"):
        net.exe.train_from_dataset(dataset=net.dataset())
    open(net.paths[0], "w").close()
    with pytest.raises(Exception, match="has no sample"):
        net.exe.train_from_dataset(dataset=net.dataset())


@pytest.mark.parametrize("in_memory", [False, True])
def test_ids_of_64_bits(tmp_path, capfd, in_memory):
    """One up to 2^64 - 1 keeps its bits, as 1.8.5 reads it; what 64 bits do not hold is no id."""
    ids = fluid.data("ids", [None, 1], dtype="int64", lod_level=1)
    whole = [0, 2**63 - 1, 2**63, 2**64 - 1, -1, -(2**63)]
    past = [2**64, 10**30, -(2**63) - 1, -(2**64) + 1]
    path = tmp_path / "part"
    path.write_text("".join(f"1 {id}\n" for id in whole + past))
    dataset = fluid.DatasetFactory().create_dataset("InMemoryDataset" if in_memory else "QueueDataset")
    dataset.set_use_var([ids])
    dataset.set_filelist([str(path)])
    dataset.set_batch_size(len(whole))
    if in_memory:
        dataset.load_into_memory()
    fluid.Executor().infer_from_dataset(fluid.default_main_program(), dataset, fetch_list=[ids], print_period=1)
    out, err = capfd.readouterr()
    found = [int(word) for word in out.replace("[", " ").replace("]", " ").replace(":", " ").split() if word.lstrip("-").isdigit()]
    assert found[-len(whole):] == [0, 2**63 - 1, -(2**63), -1, -1, -(2**63)], out
    for number, id in enumerate(past, len(whole) + 1):
        assert f"part:{number}: this line is left out: found '{str(id)[:24]}' where a whole number of at most 64 bits" in err


def fails_with(text):
    return pytest.raises(Exception, match=text)


@pytest.mark.parametrize("in_memory", [False, True])
@pytest.mark.parametrize("bad, fails", [(150, False), (455, False), (456, True), (999, True)])
def test_bad_lines_are_judged_alike_in_any_order(tmp_path, in_memory, bad, fails):
    x = fluid.data("x", [None, 1], dtype="float32")
    program = fluid.default_main_program()
    fluid.layers.scale(x, 2.0)
    good = [tmp_path / f"good-{k}" for k in range(20)]
    for path in good:
        path.write_text("1 0.5\n" * 205)
    (tmp_path / "bad").write_text("x\n" * bad)
    for place in (0, 3, 20):
        for threads in (1, 4):
            dataset = fluid.DatasetFactory().create_dataset("InMemoryDataset" if in_memory else "QueueDataset")
            dataset.set_use_var([x])
            dataset.set_filelist([str(each) for each in (*good[:place], tmp_path / "bad", *good[place:])])
            dataset.set_thread(threads)
            with fails_with(f"{bad} of {4100 + bad} lines cannot be read") if fails else contextlib.nullcontext():
                if in_memory:
                    dataset.load_into_memory()
                fluid.Executor().train_from_dataset(program, dataset)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_file_that_begins_with_bad_lines_only_ends_the_run(tmp_path, place):
    x = fluid.data("x", [None, 1], dtype="float32")
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.write_text("1 0.5\n" * 20000)
    paths.insert(place, tmp_path / "bad")
    dataset = fluid.DatasetFactory().create_dataset("InMemoryDataset")
    dataset.set_use_var([x])
    dataset.set_filelist([str(each) for each in paths])
    for text, fails in (("x\n" * 1000, True), ("x\n" * 999, False), ("x\n" * 999 + "1 1\n" + "x\n" * 500, False)):
        (tmp_path / "bad").write_text(text)
        with fails_with("the first 1000 lines of '.*bad' cannot be read") if fails else contextlib.nullcontext():
            dataset.load_into_memory()


def test_ids_past_the_table_name_the_op(tmp_path):
    net = Net(tmp_path)
    with open(net.paths[0], "a") as file:
        file.write(f"1 {IDS} 3 1 2 3 1 0.5\n")
    with pytest.raises(Exception, match="lookup_table|embedding"):
        net.exe.train_from_dataset(dataset=net.dataset())
    good = net.dataset()  # the executor and the parameters can be used again
    good.set_pipe_command("head -n 9")
    net.exe.train_from_dataset(dataset=good)


# ---- settings ----


def test_settings(tmp_path):
    net = Net(tmp_path)
    with pytest.raises(ValueError, match="datafeed class MyOwn does not exist"):
        fluid.DatasetFactory().create_dataset("MyOwn")
    with pytest.raises(RuntimeError, match="dataset is need and should be initialized"):
        net.exe.train_from_dataset()
    with pytest.raises(ValueError, match="only supports dtype=float32 and dtype=int64"):
        net.dataset().set_use_var([fluid.data("half", [None, 1], dtype="float64")])
    with pytest.raises(ValueError, match="set_use_var"):
        net.exe.train_from_dataset(dataset=fluid.DatasetFactory().create_dataset())
    for wrong in (lambda: net.dataset().set_batch_size(0), lambda: net.dataset().set_thread(0)):
        with pytest.raises(ValueError, match="1 "):
            wrong()
    for call, wrong in (("set_batch_size", lambda: net.dataset().set_batch_size("8")),
                        ("set_thread", lambda: net.dataset().set_thread(None)),
                        ("thread", lambda: net.exe.train_from_dataset(dataset=net.dataset(), thread="2"))):
        with pytest.raises(TypeError, match=f"^{call}: a whole number is wanted, found "):
            wrong()
    with pytest.raises(TypeError, match="found a Program: the Program comes first, then the data set"):
        net.exe.train_from_dataset(net.dataset(), fluid.default_main_program())
    with pytest.raises(fluid.core.NotFoundError, match="'label' has no value") as caught:
        dataset = net.dataset()
        dataset.set_use_var([net.words, net.dense])
        net.exe.train_from_dataset(dataset=dataset)
    assert caught.value.__notes__ == ["The data set does not fill 'label': set_use_var has words, dense."]
    other = fluid.Program()
    with fluid.program_guard(other, fluid.Program()):
        fluid.layers.fill_constant([1], "float32", 1.0)
    with pytest.raises(Exception, match="the Program has none of the data set's variables, the first of which is 'words'"):
        net.exe.train_from_dataset(other, net.dataset())
    dataset = net.dataset("InMemoryDataset")
    dataset.load_into_memory()
    assert f"{ROWS} samples in memory" in repr(dataset)


def test_the_description_is_upstreams(tmp_path):
    dataset = Net(tmp_path).dataset(batch=8, threads=2)
    assert dataset.desc() == textwrap.dedent("""\
        name: "MultiSlotDataFeed"
        batch_size: 8
        multi_slot_desc {
          slots {
            name: "words"
            type: "uint64"
            is_used: true
          }
          slots {
            name: "dense"
            type: "float"
            is_dense: true
            is_used: true
            shape: -1
            shape: 3
          }
          slots {
            name: "label"
            type: "float"
            is_dense: true
            is_used: true
            shape: -1
            shape: 1
          }
        }
        pipe_command: "cat"
        thread_num: 2
        """)


# ---- what ends a pass ----


@contextlib.contextmanager
def handled(number, handler):
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


class Again(fluid.executor.FetchHandler):
    """Sends a signal with each batch: later ones come while the first has ended the pass already."""

    def __init__(self, var, number):
        super().__init__({"it": var}, period_secs=0)
        self.number = number

    def handler(self, res_dict):
        os.kill(os.getpid(), self.number)


@pytest.mark.parametrize("shows", ["0", "json"])
def test_what_a_signal_handler_raises_comes_out_as_it_is(tmp_path, shows, monkeypatch):
    monkeypatch.setenv("PADDLE_PROGRESS", shows)
    monkeypatch.setattr("paddle.fluid.progress._JSON_SECONDS", 0.0)
    net = Net(tmp_path)
    dataset = net.dataset(batch=1)
    for line in ("cat; sleep 1000", "while read -r x; do echo $x; done; sleep 1000"):
        dataset.set_pipe_command(line)
        for run in (net.exe.train_from_dataset, net.exe.infer_from_dataset):
            for number, handler, raised in ((signal.SIGINT, signal.default_int_handler, KeyboardInterrupt),
                                            (signal.SIGTERM, lambda *_: sys.exit(0), SystemExit),
                                            (signal.SIGUSR1, lambda *_: {}["mine"], KeyError)):
                with handled(number, handler), pytest.raises(raised) as error:
                    run(dataset=dataset, fetch_handler=Again(net.loss, number))
                assert raised is not SystemExit or error.value.code == 0
    dataset.set_pipe_command("cat")
    net.exe.train_from_dataset(dataset=dataset)  # all of it can be used again


# A step that takes longer than the time between two looks for signals.
SLOW = """
import os, signal, sys, threading
import paddle.fluid as fluid
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
x = fluid.data("x", [None, 500], dtype="float32")
i = fluid.layers.fill_constant([1], "int64", 0)
n = fluid.layers.fill_constant([1], "int64", 200000)
more = fluid.layers.less_than(i, n)
loop = fluid.layers.While(more)
with loop.block():
    fluid.layers.increment(i, 1, in_place=True)
    fluid.layers.less_than(i, n, cond=more)
exe = fluid.Executor()
dataset = fluid.DatasetFactory().create_dataset()
dataset.set_use_var([x])
dataset.set_filelist([sys.argv[1]])
dataset.set_batch_size(1)
for _ in range(3):
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        exe.train_from_dataset(dataset=dataset)
    except KeyboardInterrupt:
        print("KeyboardInterrupt")
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
exe.train_from_dataset(dataset=dataset)
"""


def test_ctrl_c_in_a_slow_step(tmp_path):
    path = tmp_path / "numbers"
    path.write_text(("500" + " 1" * 500 + "\n") * 1000)
    done = subprocess.run([sys.executable, "-c", SLOW, str(path)], text=True, capture_output=True, timeout=300,
                          env={**os.environ, "PADDLE_PROGRESS": "json"})
    assert done.returncode == 0 and done.stdout.splitlines() == ["KeyboardInterrupt"] * 3, done.stderr


class Broken:
    """A standard error that nobody reads any more."""

    def write(self, text):
        raise BrokenPipeError("nobody reads")

    flush = isatty = lambda self: False


def test_progress_that_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setenv("PADDLE_PROGRESS", "json")
    monkeypatch.setattr("sys.stderr", Broken())
    net = Net(tmp_path)
    dataset = net.dataset(batch=1)
    dataset.set_pipe_command("cat; sleep 1000")
    with pytest.raises(BrokenPipeError, match="nobody reads"):
        net.exe.train_from_dataset(dataset=dataset)
