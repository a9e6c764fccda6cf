"""FleetUtil: what scripts of online training share. What needs pslib's tables says so."""

from __future__ import annotations

import logging
import os
from typing import Any

import numpy as np

from paddle.fluid import core
from paddle.fluid.core import Scope
from paddle.fluid.executor import global_scope
from paddle.fluid.framework import Program
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet as fleet_transpiler
from paddle.fluid.incubate.fleet.parameter_server.pslib import fleet as fleet_pslib
from paddle.fluid.incubate.fleet.parameter_server.pslib.not_there import fill_absent
from paddle.fluid.incubate.fleet.utils import utils
from paddle.fluid.incubate.fleet.utils.hdfs import HDFSClient  # noqa: F401  (scripts take it from here)
from paddle.fluid.log_helper import get_logger

__all__ = ["FleetUtil"]

_logger = get_logger(__name__, logging.INFO, fmt="%(asctime)s-%(levelname)s: %(message)s")
_FLEETS = {"pslib": fleet_pslib, "transpiler": fleet_transpiler}


class FleetUtil:
    """Helpers of a job.

    Args:
        mode: "transpiler" or "pslib": which `fleet` the script uses.

    >>> from paddle.fluid.incubate.fleet.utils.fleet_util import FleetUtil
    >>> util = FleetUtil(mode="transpiler")
    >>> util.get_online_pass_interval("20191125", "{0..1}", 30, 1, False)[:3]
    [['0000'], ['0030'], ['0100']]
    """

    def __init__(self, mode: str = "pslib"):
        if mode not in _FLEETS:
            raise ValueError('Please choose one mode from ["pslib", "transpiler"]')
        self._fleet = _FLEETS[mode]

    def rank0_print(self, s: str) -> None:
        """Worker 0 prints a line.

        Args:
            s: the line.
        """
        if self._fleet.worker_index() == 0:
            print(s, flush=True)

    def rank0_info(self, s: str) -> None:
        """Worker 0 logs a line.

        Args:
            s: the line.
        """
        if self._fleet.worker_index() == 0:
            _logger.info(s)

    def rank0_error(self, s: str) -> None:
        """Worker 0 logs an error.

        Args:
            s: the line.
        """
        if self._fleet.worker_index() == 0:
            _logger.error(s)

    def set_zero(self, var_name: str, scope: Scope | None = None, place: Any = None, param_type: str = "int64") -> None:
        """Fills a variable with zeros, as the buckets of auc between two passes.

        Args:
            var_name: its name.
            scope: where it is; None: the global scope.
            place: where its memory is.
            param_type: its type.
        """
        tensor = (scope or global_scope()).var(var_name).get_tensor()
        tensor.set(np.zeros(tensor._get_dims(), param_type), place or core.CPUPlace())

    def _all(self, scope: Scope | None, name: str) -> np.ndarray | None:
        """The sum of a variable over all workers, in one dimension; None: there is no such variable."""
        holder = (scope or global_scope()).find_var(name)
        if holder is None:
            return None
        mine = np.array(holder.get_tensor()).reshape(-1)
        found = np.zeros_like(mine)
        self._fleet.all_reduce_worker(mine, found)
        return found

    def get_global_auc(self, scope: Scope | None = None, stat_pos: str = "_generated_var_2",
                       stat_neg: str = "_generated_var_3") -> float | None:
        """The area under the curve over all workers; None when there are no such variables.

        Args:
            scope: where the variables are; None: the global scope.
            stat_pos: the buckets of positive samples, one of those that fluid.layers.auc returns.
            stat_neg: those of negative samples.
        """
        pos, neg = self._all(scope, stat_pos), self._all(scope, stat_neg)
        if pos is None or neg is None:
            self.rank0_print("not found auc bucket")
            return None
        # From the highest score on: how many of each kind lie above a bucket's lower end.
        pos, neg = (np.concatenate([[0.0], np.cumsum(each[::-1].astype("float64"))]) for each in (pos, neg))
        if pos[-1] * neg[-1] == 0:
            return 0.5
        area = np.sum((neg[1:] - neg[:-1]) * (pos[1:] + pos[:-1]) / 2)
        return float(area / (pos[-1] * neg[-1]))

    def print_global_auc(self, scope: Scope | None = None, stat_pos: str = "_generated_var_2", stat_neg: str = "_generated_var_3",
                         print_prefix: str = "") -> None:
        """Worker 0 prints it.

        Args:
            scope: where the variables are; None: the global scope.
            stat_pos: the buckets of positive samples.
            stat_neg: those of negative samples.
            print_prefix: what stands before it.
        """
        self.rank0_print(f"{print_prefix} global auc = {self.get_global_auc(scope, stat_pos, stat_neg)}")

    def get_online_pass_interval(self, days: str, hours: str, split_interval: int, split_per_pass: int,
                                 is_data_hourly_placed: bool) -> list[list[str]]:
        """The names of the pieces of a day that each pass trains.

        Args:
            days: which days; not looked at.
            hours: which hours, as a shell writes them: "{0..23}" or "0 1 2".
            split_interval: minutes of a piece.
            split_per_pass: pieces of a pass.
            is_data_hourly_placed: pieces are called by their hour alone.
        """
        chosen = set(map(int, _words(hours)))
        pieces = []
        for begin in range(0, 24 * 60, int(split_interval)):
            hour, minute = divmod(begin, 60)
            if hour in chosen:
                pieces.append(f"{hour:02d}" if is_data_hourly_placed else f"{hour:02d}{minute:02d}")
        return [pieces[i : i + int(split_per_pass)] for i in range(0, len(pieces) - int(split_per_pass) + 1, int(split_per_pass))]

    def program_type_trans(self, prog_dir: str, prog_fn: str, is_text: bool) -> str:
        """Writes a Program in the other form beside its file; returns the new name.

        Args:
            prog_dir: the folder.
            prog_fn: the file.
            is_text: which form it has.
        """
        return utils.program_type_trans(prog_dir, prog_fn, is_text)

    def draw_from_program_file(self, model_filename: str, is_text: bool, output_dir: str, output_filename: str) -> None:
        """Draws the Program of a file.

        Args:
            model_filename: the file.
            is_text: which form it has.
            output_dir: the folder of the drawing.
            output_filename: its name, without ending.
        """
        self.draw_from_program(utils.load_program(model_filename, is_text), output_dir, output_filename)

    def draw_from_program(self, program: Program, output_dir: str, output_name: str) -> None:
        """Draws a Program.

        Args:
            program: the Program.
            output_dir: the folder of the drawing.
            output_name: its name, without ending.
        """
        utils.graphviz(program.global_block(), output_dir, output_name)

    def check_two_programs(self, config: Any) -> bool:
        """Does a pruned Program fit the one that it was cut from?

        Args:
            config: has train_prog_path, is_text_train_program, pruned_prog_path, is_text_pruned_program, draw and draw_out_name.
        """
        train = utils.load_program(config.train_prog_path, config.is_text_train_program)
        pruned = utils.load_program(config.pruned_prog_path, config.is_text_pruned_program)
        if config.draw:
            self.draw_from_program(pruned, os.path.dirname(config.pruned_prog_path), config.draw_out_name)
        return utils.check_pruned_program_vars(train, pruned)

    def check_vars_and_dump(self, config: Any) -> list:
        """Runs a saved model once.

        Args:
            config: what to run.
        """
        return utils.check_saved_vars_try_dump(config.dump_model_dir, config.dump_program_filename, config.is_text_dump_program,
                                               config.feed_config, config.fetch_config, config.batch_size,
                                               config.save_params_filename)

    def parse_program_proto(self, prog_path: str, is_text: bool, output_dir: str) -> None:
        """Lists a Program in the files vars_persistable.log, vars_all.log and ops.log.

        Args:
            prog_path: its file.
            is_text: which form it has.
            output_dir: their folder.
        """
        utils.parse_program(utils.load_program(prog_path, is_text), output_dir)


def _words(text: str) -> list[str]:
    """The words that a shell would make of "{a..b}" or "a b c"."""
    found = []
    for word in text.split():
        first, dots, last = word.strip("{}").partition("..")
        found += [str(number) for number in range(int(first), int(last) + 1)] if dots else word.strip("{}").split(",")
    return found


fill_absent(FleetUtil, """
    load_fleet_model_one_table load_fleet_model save_fleet_model write_model_donefile write_xbox_donefile write_cache_donefile
    load_model save_model save_batch_model save_delta_model save_xbox_base_model save_cache_model save_cache_base_model
    pull_all_dense_params save_paddle_inference_model save_paddle_params get_last_save_xbox_base get_last_save_xbox
    get_last_save_model get_global_metrics print_global_metrics
    """)
