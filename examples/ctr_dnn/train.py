"""Trains CTR-DNN, in one process or as a process of a job of servers and workers.

    python train.py                        # in one process, on made-up clicks
    python -u train.py --is_cloud=1        # a server or a worker, as the environment says: README.md
    paddle launch local --server_num=2 --worker_num=2 train.py --is_cloud=1

The other models of examples/ train with this file too: each gives it a network of its own.
"""

import argparse
import glob
import json
import os
import sys
import time

import generate
import metric
import network_conf
import numpy as np
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import StrategyFactory

HERE = os.path.dirname(os.path.abspath(__file__))
RECENT = 20  # batches that the AUC of the training lines is over


def run_with_servers(options, model):
    """The ten lines that make a script distributed, and what stands between them."""
    role = role_maker.PaddleCloudRoleMaker()
    fleet.init(role)

    job = Training(options, model)
    if options.strategy == "geo":
        strategy = StrategyFactory.create_geo_strategy(options.geo_steps)
    else:
        strategy = getattr(StrategyFactory, "create_%s_strategy" % options.strategy)()
    optimizer = fleet.distributed_optimizer(job.optimizer, strategy)
    optimizer.minimize(job.net.loss)

    if fleet.is_server():
        fleet.init_server(options.load)
        fleet.run_server()
    if fleet.is_worker():
        fleet.init_worker()
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fleet.startup_program)
        job.run(exe, fleet.main_program, fleet.split_files)
        if options.save and fleet.is_first_worker():
            fleet.save_persistables(exe, os.path.join(options.save, "params"))
            fleet.save_inference_model(exe, os.path.join(options.save, "model"), job.fed, [job.net.prediction], job.forward)
        fleet.stop_worker()


def run_alone(options, model):
    job = Training(options, model)
    job.optimizer.minimize(job.net.loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    if options.load:
        fluid.io.load_persistables(exe, options.load)
    job.run(exe, fluid.default_main_program(), lambda files: files)
    if options.save:
        fluid.io.save_persistables(exe, os.path.join(options.save, "params"))
        fluid.io.save_inference_model(os.path.join(options.save, "model"), job.fed, [job.net.prediction], exe, job.forward)


class Training:
    """The net, its test, and the passes over the files: the same in one process and in a worker."""

    def __init__(self, options, model):
        self.options, self.model = options, model
        fluid.default_main_program().random_seed = fluid.default_startup_program().random_seed = options.seed
        self.net = net = model.network(options)
        self.fed = [each.name for each in net.inputs[:-1]]  # the last one is what is predicted
        self.forward = fluid.default_main_program().clone(for_test=True)
        self.test = self.forward.clone(for_test=True)
        self.shown = {"loss": net.loss}
        if net.label is not None:
            self.auc = metric.Auc(self.test, net.prediction.name, net.label.name)
            _, self.shown["AUC"], counters = fluid.layers.auc(net.prediction, net.label, slide_steps=RECENT)
            self.counters = counters[2:]
        rules = {"adam": lambda rate: fluid.optimizer.Adam(rate, lazy_mode=True), "adagrad": fluid.optimizer.Adagrad,
                 "sgd": fluid.optimizer.SGD}
        self.optimizer = rules[options.optimizer](options.rate)

    def dataset(self, files):
        """The data set of some files. A worker may have none: it takes part in each pass all the same."""
        options = self.options
        dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
        dataset.set_use_var(self.net.inputs)
        dataset.set_batch_size(options.batch_size)
        dataset.set_thread(options.threads)
        dataset.set_filelist(files)
        if options.criteo:
            dataset.set_pipe_command('"%s" "%s" --rows %d' % (sys.executable, os.path.join(HERE, "reader.py"), options.rows))
        return dataset

    def run(self, exe, program, share):
        """All passes; `share` picks the files of this worker."""
        options = self.options
        if options.criteo:
            train, test = (sorted(glob.glob(pattern)) if pattern else [] for pattern in (options.criteo, options.criteo_test))
            if not train:
                raise SystemExit("--criteo=%s: there are no such files" % options.criteo)
        else:
            generate.make(options, self.model.write, self.model.facts)
            train, test = (sorted(glob.glob(os.path.join(options.data, name, "part-*"))) for name in ("train", "test"))
        dataset, held_out = self.dataset(share(train)), self.dataset(share(test))
        for number in range(options.passes):
            begin = time.time()
            exe.train_from_dataset(program, dataset, fetch_list=list(self.shown.values()), fetch_info=list(self.shown),
                                   print_period=options.every, fetch_handler=self.reporter())
            print("pass %d: trained for %.1f s" % (number, time.time() - begin), flush=True)
            self.measure(exe, number, held_out)

    def measure(self, exe, number, held_out):
        """What the test says after a pass. All workers take part: each has its share of the files."""
        join = None
        if self.options.is_cloud:
            fleet.barrier_worker()
            join = add_up
        if self.net.label is None:
            name, value = self.model.measure(exe, self.test, self.net, self.options)
        else:
            name, value = "AUC", self.auc.over(exe, held_out, join)
        if value is not None and (not self.options.is_cloud or fleet.is_first_worker()):
            print("pass %d: test %s %.4f" % (number, name, value), flush=True)

    def reporter(self):
        """What writes the lines of --report."""
        if not self.options.report:
            return None
        shown = dict(self.shown)
        if self.net.label is not None:
            shown["clicks"], shown["others"] = self.counters
        number = fleet.worker_index() if self.options.is_cloud else 0
        return Reporter("%s.%d" % (self.options.report, number), shown)


def add_up(counts):
    """Counters of all workers together."""
    total = np.zeros_like(counts)
    fleet.all_reduce_worker(counts, total)
    return total


class Reporter(fluid.executor.FetchHandler):
    """Appends a line of JSON to a file some 20 times a second: samples of this worker so far, and what is fetched."""

    def __init__(self, path, shown):
        super().__init__(shown, period_secs=0.05)
        self.path = path

    def handler(self, values):
        found = {name: float(np.sum(value)) for name, value in values.items()}
        found["samples"] = int(found.pop("clicks", 0) + found.pop("others", 0))
        with open(self.path, "a") as file:
            file.write(json.dumps(dict(found, at=time.time())) + "\n")


class Model:
    """What an example gives to main(): its network and its data."""

    def __init__(self, network, write=generate.write_clicks, facts=("rows",), measure=None, folder="data"):
        self.network = network  # of the options: a network_conf.Net
        self.write = write  # of path, number of samples, seed and options: makes a file of the data
        self.facts = facts  # options that the data depend on
        self.measure = measure  # of an executor, the Program for the test, the Net and the options: a name and a number
        self.folder = folder  # of the data, where --data names no other


def main(about, model, rate, optimizer="adam", samples=200000, options=network_conf.add_options):
    """Reads the command line and trains."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--is_cloud", type=int, default=0, help="1: a process of a job, by its environment; 0: all in one process")
    parser.add_argument("--strategy", choices=["sync", "async", "half_async", "geo"], default="sync", help="of a job (sync)")
    parser.add_argument("--geo_steps", type=int, default=100, help="batches between two exchanges of geo")
    generate.add_options(parser, samples, model.folder)
    parser.add_argument("--criteo", default="", help="pattern of Criteo's own files, which are read by reader.py; no --data then")
    parser.add_argument("--criteo_test", default="", help="pattern of those for the test")
    options(parser)
    parser.add_argument("--optimizer", choices=["adam", "adagrad", "sgd"], default=optimizer)
    parser.add_argument("--rate", type=float, default=rate, help="learning rate")
    parser.add_argument("--batch_size", type=int, default=1000, help="samples in a step of one worker")
    parser.add_argument("--threads", type=int, default=1, help="threads of a process that train")
    parser.add_argument("--passes", type=int, default=1, help="times over the files")
    parser.add_argument("--every", type=int, default=20, help="batches between two lines")
    parser.add_argument("--save", default="", help="folder for the parameters and the model at the end")
    parser.add_argument("--load", default=None, help="folder of parameters to begin with: params of --save")
    parser.add_argument("--report", default="", metavar="REPORT",
                        help="worker N writes a line of JSON to REPORT.N some 20 times a second")
    chosen = parser.parse_args()
    (run_with_servers if chosen.is_cloud else run_alone)(chosen, model)


if __name__ == "__main__":
    main(__doc__, Model(network_conf.network), rate=0.001)
