"""What scripts of v1.2 to v1.8 name beside data sets: DataFeedDesc, AsyncExecutor, TrainerDesc and its kin, core.Dataset."""

import threading

import numpy as np
import pytest
from test_data_files import ROWS, Net, fresh, printed  # noqa: F401 (a fixture)

import paddle.fluid as fluid

FEED = """# what stands on a line
name: "MultiSlotDataFeed"
batch_size: 2
multi_slot_desc {
    slots { name: "words" type: "uint64" is_dense: false is_used: true }
    slots < name: 'dense' type: "flo" "at"; is_dense: true, is_used: false shape: [1, -1] >
    slots { name: "label" type: "float" }
}
"""


@pytest.fixture
def desc(tmp_path):
    (tmp_path / "feed").write_text(FEED)
    return fluid.DataFeedDesc(str(tmp_path / "feed"))


def test_data_feed_desc(desc):
    desc.set_batch_size(128)
    desc.set_dense_slots(["label"])
    desc.set_use_slots(["label", "dense"])
    assert desc.desc() == '''name: "MultiSlotDataFeed"
batch_size: 128
multi_slot_desc {
  slots {
    name: "words"
    type: "uint64"
    is_dense: false
    is_used: true
  }
  slots {
    name: "dense"
    type: "float"
    is_dense: true
    is_used: true
    shape: 1
    shape: -1
  }
  slots {
    name: "label"
    type: "float"
    is_dense: true
    is_used: true
  }
}
pipe_command: "cat"
'''
    with pytest.raises(KeyError, match="nothing"):
        desc.set_use_slots(["nothing"])


@pytest.mark.parametrize("text, problem", [
    ("name: 'x'\nbatch: 3", "line 2: DataFeedMessage has no field 'batch'; it has name, batch_size"),
    ("batch_size: many", "line 1: batch_size is of type int32, found 'many'"),
    ("multi_slot_desc { slots {", "line 1: found '' where a field or '}' should stand"),
    ("name 'x'", "line 1: name wants ':' and a value"),
    ("name: x", "line 1: name is of type string, found 'x'"),
    ("\n\nname: \"x", "line 3: found"),
    ("multi_slot_desc: 3", "line 1: multi_slot_desc wants '{'"),
    ("}", "line 1: found '}' where a field or 'the end' should stand")])
def test_a_text_that_is_no_data_feed_desc(tmp_path, text, problem):
    (tmp_path / "feed").write_text(text)
    with pytest.raises(ValueError) as error:
        fluid.DataFeedDesc(str(tmp_path / "feed"))
    assert f"feed, {problem}" in str(error.value)


def test_only_one_kind_has_slots(tmp_path):
    (tmp_path / "feed").write_text('name: "Other"')
    with pytest.raises(ValueError, match="Only MultiSlotDataFeed needs set_use_slots"):
        fluid.DataFeedDesc(str(tmp_path / "feed")).set_use_slots([])


def test_async_executor(tmp_path, desc, capfd):
    """It trains as a data set does. Slots that are not used are read over, and are not the Program's then."""
    net = Net(tmp_path)
    desc.set_dense_slots(["label"])
    desc.set_use_slots(["label", "dense"])
    desc.set_batch_size(1)
    start = {name: np.array(fluid.global_scope().find_var(name).get_tensor()) for name in ("table", "w", "fc_0.b_0")}
    fluid.AsyncExecutor(fluid.CPUPlace()).run(fluid.default_main_program(), desc, net.paths, 4, [net.loss])
    assert printed(capfd) == []  # fewer than 100 batches
    trained = net.values()
    for name, value in start.items():
        fluid.global_scope().find_var(name).get_tensor().set(value, fluid.CPUPlace())
    net.run_fed(batch=1)
    for name, value in net.values().items():
        np.testing.assert_array_equal(trained[name], value)
    executor = fluid.AsyncExecutor()
    with pytest.raises(ValueError, match="data_feed should be provided"):
        executor.run(None, None, net.paths, 1, [])
    with pytest.raises(NotImplementedError, match="FLEET.md"):
        executor.run(None, desc, net.paths, 1, [], mode="mpi")


def test_async_executor_reads_over_what_is_not_used(tmp_path, desc, capfd):
    net = Net(tmp_path)
    words, label = net.words, net.label
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        words = fluid.data("words", [None, 1], dtype="int64", lod_level=1)
        label = fluid.data("label", [None, 1], dtype="float32")
        total = fluid.layers.reduce_sum(fluid.layers.cast(words, "float32"))
        both = fluid.layers.elementwise_add(total, fluid.layers.reduce_sum(label))
        desc.set_batch_size(ROWS)
        desc.set_use_slots(["label"])
        desc.set_dense_slots(["label"])
        fluid.AsyncExecutor().run(fluid.default_main_program(), desc, net.paths[0], 1, [both], debug=False)
        dataset = fluid.async_executor._Described(desc, fluid.default_main_program())
        dataset.set_filelist(net.paths)
        net.exe.infer_from_dataset(dataset=dataset, fetch_list=[both], print_period=1)
    wanted = sum(int(each[0].sum()) + float(each[2]) for each in net.samples)
    assert printed(capfd) == [pytest.approx(wanted, rel=1e-5)]
    with pytest.raises(ValueError, match="slot 'words' is used, and the Program has no variable of that name"):
        fluid.AsyncExecutor().run(fluid.Program(), desc, net.paths, 1, [])


def test_trainers():
    trainer = fluid.trainer_factory.TrainerFactory()._create_trainer()
    assert type(trainer) is fluid.MultiTrainer and isinstance(trainer, fluid.TrainerDesc)
    trainer._set_program(fluid.default_main_program())
    trainer._set_thread(3)
    trainer._set_debug(True)
    trainer._set_fetch_var_and_info([fluid.data("x", [None, 1])], ["info"], 7)
    trainer._gen_trainer_desc()
    assert trainer._desc() == b"\n\x0cMultiTrainer\x12\rHogwildWorker\x18\x030\x01:\x0b\n\x01x\x12\x04info\x18\x07"
    assert "class_name: \"MultiTrainer\"\n" in str(trainer)
    trainer = fluid.trainer_factory.TrainerFactory()._create_trainer({
        "trainer": "DistMultiTrainer", "device_worker": "Hogwild", "dump_fields": ["a"], "dump_fields_path": "/x", "mpi_rank": 1,
        "mpi_size": 2, "dump_slot": True, "dump_file_num": 3, "dump_converter": "c", "dump_param": ["w"], "fleet_desc": None,
        "use_cvm": True, "no_cvm": True, "scale_datanorm": 0.5, "check_nan_var_names": ["n"], "loss_names": ["l"],
        "adjust_ins_weight": {"need_adjust": True, "nid_slot": "n", "nid_adjw_threshold": 0.1, "nid_adjw_ratio": 2,
                              "ins_weight_slot": "w"},
        "copy_table": {"need_copy": True, "src_sparse_tables": [1], "dest_sparse_tables": [2], "src_dense_tables": [3],
                       "dest_dense_tables": [4], "src_var_list": ["a"], "dest_var_list": ["b"], "batch_num": 5,
                       "sparse_copy_by_feasign": False, "enable_dependency": True}})
    trainer._set_thread(2)
    trainer._set_thread_barrier(True)
    trainer._gen_trainer_desc()
    # These bytes are what 1.8.5 makes of the same settings.
    assert trainer._desc() == (
        b"\n\x10DistMultiTrainer\x12\rHogwildWorker\x18\x02@\x01H\x01U\x00\x00\x00?X\x01b\x02/xj\x01ar\x01cz\x01w"
        b"\x80\x01\x02\x88\x01\x03\x92\x01\x01n\x9a\x01\x18\x08\x01\x10\x05\x18\x01 \x02(\x030\x04:\x01aB\x01bH\x01P\x00X\x01"
        b"\xa2\x01\x12\x08\x01\x12\x01n\x1d\xcd\xcc\xcc=%\x00\x00\x00@*\x01w\xa8\x01\x01\xb0\x01\x01\xba\x01\x01l")
    for worker, what in (("DownpourSGD", "pslib"), ("Section", "PipelineOptimizer")):
        trainer = fluid.trainer_factory.TrainerFactory()._create_trainer({"trainer": "PipelineTrainer", "device_worker": worker})
        with pytest.raises(NotImplementedError, match=what):
            trainer._gen_trainer_desc()
    with pytest.raises(ValueError, match="there is no 'Nothing'; there are TrainerDesc, MultiTrainer"):
        fluid.trainer_factory.TrainerFactory()._create_trainer({"trainer": "Nothing", "device_worker": "Hogwild"})
    with pytest.raises(ValueError, match="src_var_list has 1 entries and dest_var_list 0"):
        fluid.TrainerDesc()._set_copy_table_config({"src_var_list": ["a"]})


def test_fetch_handler_monitor():
    seen, come = [], threading.Event()

    class Handler(fluid.executor.FetchHandler):
        def handler(self, res_dict):
            seen.append(res_dict)
            come.set()

    block = fluid.default_main_program().global_block()
    there, missing = (block.create_var(name=name, shape=[3], dtype="float32") for name in ("there", "missing"))
    fluid.global_scope().var("there").get_tensor().set(np.arange(3, dtype="float32"), fluid.CPUPlace())
    monitor = fluid.trainer_factory.FetchHandlerMonitor(fluid.global_scope(), Handler({"a": there, "b": missing, "c": None}, 0.01))
    monitor.start()
    assert come.wait(60)
    monitor.stop()
    assert list(seen[0]) == ["a"] and seen[0]["a"].tolist() == [0, 1, 2]
    assert not monitor.fetch_thread.is_alive()


def test_setters_of_page_views_and_pslib():
    dataset = fluid.DatasetFactory().create_dataset("InMemoryDataset")
    dataset.set_current_phase(1)
    dataset.set_generate_unique_feasigns(True, 3)
    dataset.generate_local_tables_unlock(0, 1, 1, 1, 1)
    dataset.set_fleet_send_batch_size(80)
    dataset.set_fleet_send_sleep_seconds(2)
    assert dataset.get_pv_data_size() == 0
    for call in (dataset.preprocess_instance, dataset.postprocess_instance, lambda: dataset.set_enable_pv_merge(True)):
        with pytest.raises(NotImplementedError, match="not there"):
            call()


def test_core_names(tmp_path):
    dataset = fluid.core.Dataset("MultiSlotDataset")
    dataset.set_thread_num(12)
    dataset.set_filelist(["a", "b"])
    dataset.set_trainer_num(4)
    dataset.set_hdfs_config("name", "ugi")
    dataset.set_download_cmd("cmd")
    assert (dataset.get_thread_num(), dataset.get_filelist(), dataset.get_trainer_num()) == (12, ["a", "b"], 4)
    assert (dataset.get_hdfs_config(), dataset.get_download_cmd()) == (("name", "ugi"), "cmd")
    with pytest.raises(ValueError, match="There is no data set 'x'"):
        fluid.core.Dataset("x")
    assert fluid.core.Fleet().get_cache_threshold(0) == 0
    with pytest.raises(ImportError, match="core.Fleet.init_worker is not there yet"):
        fluid.core.Fleet().init_worker("", 0)


@pytest.mark.parametrize("kind", ["QueueDataset", "InMemoryDataset"])
@pytest.mark.parametrize("places", [1, 3])
@pytest.mark.parametrize("drop_last", [True, False])
def test_loader_from_dataset(tmp_path, kind, places, drop_last):
    """ROWS samples in batches of 8: seven whole ones and one of 1. What does not fill all places is spread over them."""
    net = Net(tmp_path)
    dataset = net.dataset(kind)
    if kind == "InMemoryDataset":
        dataset.load_into_memory()
    loader = fluid.io.DataLoader.from_dataset(dataset, [fluid.CPUPlace()] * places, drop_last)
    for _ in range(2):
        feeds = list(loader)
        assert all(len(each) == places for each in feeds)
        one = [feed for each in feeds for feed in each]
        sizes = [feed["label"].shape()[0] for feed in one]
        if places == 1:
            assert sizes == [8] * 7 + ([] if drop_last else [1])
        else:
            assert sizes[:6] == [8] * 6 and sizes[6:] == ([] if drop_last else [3, 3, 3])
        count = sum(sizes)
        words = np.concatenate([np.array(feed["words"]).ravel() for feed in one])
        lengths = sum((feed["words"].recursive_sequence_lengths()[0] for feed in one), [])
        np.testing.assert_array_equal(words, np.concatenate([each[0] for each in net.samples[:count]]))
        assert lengths == [len(each[0]) for each in net.samples[:count]]
        np.testing.assert_array_equal(np.concatenate([np.array(feed["dense"]) for feed in one]),
                                      np.stack([each[1] for each in net.samples[:count]]))
    if places == 1:
        losses = [net.exe.run(feed=feed, fetch_list=[net.loss])[0].item() for feed in loader()]
        assert len(losses) == len(feeds) and np.isfinite(losses).all()


def test_a_loader_that_is_left_in_the_middle(tmp_path):
    net = Net(tmp_path)
    dataset = net.dataset(batch=1)
    loader = fluid.io.DataLoader.from_dataset(dataset, fluid.CPUPlace())
    for _ in range(20):
        next(iter(loader))
    assert len(list(loader)) == ROWS
    dataset.set_filelist([str(tmp_path / "nowhere")])
    with pytest.raises(fluid.core.EnforceNotMet, match="data file '.*nowhere' cannot be opened"):
        list(loader)
    with pytest.raises(TypeError, match="a data set of fluid.DatasetFactory is wanted"):
        fluid.io.DataLoader.from_dataset(3, fluid.CPUPlace())
