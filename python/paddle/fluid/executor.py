"""Executor: runs Programs. run() itself is in paddle._core; here are the rarer forms of its arguments."""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING, Any, Iterator

import numpy as np

from paddle import _core
from paddle.fluid import core, data_passes, farewell, shown
from paddle.fluid.data_feeder import array_of
from paddle.fluid.framework import JOBS, Program, Variable, default_main_program
from paddle.fluid.framework_op import Operator
from paddle.fluid.places import check_place
from paddle.fluid.vartype import DTYPE_NAMES, OpRole, convert_np_dtype_to_dtype_

if TYPE_CHECKING:
    from paddle.fluid.hints import PlaceLike

__all__ = ["Executor", "global_scope", "scope_guard"]

_core._set_global_scope(core.Scope())


def global_scope() -> core.Scope:
    """The scope that run() uses when it gets none."""
    return _core._get_global_scope()


def _switch_scope(scope: core.Scope) -> core.Scope:
    before = _core._get_global_scope()
    _core._set_global_scope(scope)
    return before


switch_scope = _switch_scope


@contextlib.contextmanager
def scope_guard(scope: core.Scope) -> Iterator[None]:
    """Inside the `with` block, `scope` is the global one.

    Args:
        scope: a fluid.Scope.

    >>> with fluid.scope_guard(fluid.Scope()):
    ...     fluid.Executor().run(fluid.default_startup_program())
    []
    """
    before = _switch_scope(scope)
    try:
        yield
    finally:
        _switch_scope(before)


def as_numpy(tensor):
    """A LoDTensor without LoD as an array; a LoDTensorArray or a list as a list of arrays."""
    if isinstance(tensor, (core.LoDTensorArray, list)):
        return [as_numpy(each) for each in tensor]
    if not isinstance(tensor, core.LoDTensor):
        raise TypeError(f"as_numpy takes a LoDTensor, a LoDTensorArray or a list of them, found {shown.found(tensor)}.")
    if tensor.lod():
        raise RuntimeError(
            "The tensor holds sequences (LoD), which an array cannot show. Run with return_numpy=False to "
            "get a LoDTensor; np.array(tensor) then gives its rows."
        )
    return np.array(tensor) if tensor._is_initialized() else None


def _fetch_var(name: str, scope: core.Scope | None = None, return_numpy: bool = True):
    """The value of a variable in the scope, which holds persistable variables."""
    if not isinstance(name, str):
        raise TypeError(f"The name of a variable is a str, found {name!r}.")
    holder = (global_scope() if scope is None else scope).find_var(name)
    if holder is None:
        raise core.NotFoundError(
            f"The scope has no variable {name!r}. Only persistable variables stay there after a run: set "
            "persistable=True on it, or fetch it with Executor.run."
        )
    tensor = holder.get_tensor()
    return as_numpy(tensor) if return_numpy else tensor


fetch_var = _fetch_var


def _to_name_str(var) -> str:
    """The name of a Variable; a name itself; the names of a list, with commas."""
    if isinstance(var, tuple):
        var = var[0]
    if isinstance(var, list):
        return ",".join(_to_name_str(each) for each in var)
    if isinstance(var, Variable):
        return var.name
    if isinstance(var, str):
        return var
    if isinstance(var, Operator):
        return str(id(var))
    raise TypeError(f"A Variable, an Operator or a name is wanted, found {shown.found(var)}.")


def _declared_dtype(program, name: str):
    var = program.global_block().vars.get(name)
    return None if var is None or not var._has_dtype else DTYPE_NAMES.get(var.dtype)


def _widened(program, name: str, value):
    """An array or tensor in the declared type where that loses nothing: the type has all values of its own, or at least
    these integers. Else the value itself."""
    want = _declared_dtype(program, name)
    array = np.asarray(value)
    safe = want is not None and np.can_cast(array.dtype, want, "safe")
    if want in (None, "bool", array.dtype) or not (safe or array.dtype.kind in "iu"):
        return value
    cast = array.astype(want)
    if not safe and not np.array_equal(cast.astype(array.dtype), array):
        return value
    if not isinstance(value, core.LoDTensor):
        return np.ascontiguousarray(cast)
    tensor = core.LoDTensor()
    tensor.set(cast, core.CPUPlace())
    tensor.set_lod(value.lod())
    return tensor


def _convert_feed(program, name: str, value, widen: bool = False):
    """What is fed as neither array nor tensor: numbers and lists become arrays of the declared type.

    `widen`: the value was refused for its element type.
    """
    if widen:
        return _widened(program, name, value)
    if isinstance(value, np.ndarray):
        return np.ascontiguousarray(value)
    if isinstance(value, (list, tuple)) and any(isinstance(each, core.LoDTensor) for each in value):
        raise TypeError(
            f"The feed {name!r} is a list of LoDTensors. Feed one LoDTensor; fluid.DataFeeder makes it."
        )
    dtype = _declared_dtype(program, name)
    if value is None:
        raise core.InvalidArgumentError(f"The feed {name!r} is None. Feed an array of {dtype or 'numbers'}.")
    try:
        if isinstance(value, np.generic):
            return np.array([value])
        array = array_of(value, dtype)
    except (ValueError, TypeError, OverflowError) as error:
        hint = "Sequences of different lengths go into a LoDTensor: see fluid.create_lod_tensor."
        raise core.InvalidArgumentError(
            f"The feed {name!r} of type {type(value).__name__} cannot become an array of {dtype or 'numbers'}: "
            f"{shown.sentence(str(error))} {hint if 'inhomogeneous' in str(error) else 'Feed numbers.'}"
        ) from None
    if array.dtype == object:
        raise core.DataTypeError(f"The feed {name!r} of type {type(value).__name__} is no array of numbers.")
    is_doubtful = array.dtype.kind in "iu" or (array.dtype.kind == "f" and np.isinf(array).any())
    given = np.asarray(value) if is_doubtful else array
    is_lost = np.isinf(array) != np.isinf(given) if array.dtype.kind == "f" and given.dtype.kind in "iuf" else given != array
    if given.dtype.kind in "iuf" and np.any(is_lost):
        raise core.InvalidArgumentError(
            f"The feed {name!r} has numbers that {array.dtype} cannot hold, which the variable is declared with. Feed numbers that "
            "it has, or declare another dtype."
        )
    return array.reshape(1) if array.ndim == 0 else array


_core._set_convert_feed(_convert_feed)


def _flat_fetches(fetch_list) -> tuple[list, list]:
    """Variables and names, and the optimizer's ops that a script puts among them: what minimize() returned, or a part."""
    flat: list = []
    ops: list = []

    def add(item) -> None:
        if isinstance(item, (Variable, str)):
            flat.append(item)
        elif isinstance(item, bytes):
            flat.append(item.decode())
        elif isinstance(item, Operator):
            ops.append(item)
        elif isinstance(item, (list, tuple)):
            for each in item:
                add(each)
        else:
            raise TypeError(
                f"fetch_list holds Variables and their names, found {shown.found(item)}."
            )

    if isinstance(fetch_list, (Variable, str, bytes)):
        add(fetch_list)
        return flat, ops
    if isinstance(fetch_list, (set, frozenset)) and len(fetch_list) < 2:
        fetch_list = list(fetch_list)  # 1.0 to 1.5 took sets
    if not isinstance(fetch_list, (list, tuple)):
        hint = " A set has no order: the results could come in any." if isinstance(fetch_list, (set, frozenset)) else ""
        raise TypeError(
            f"fetch_list must be a list of Variables or names, found {shown.found(fetch_list)}.{hint}"
        )
    for item in fetch_list:
        if isinstance(item, tuple) and item and isinstance(item[0], (list, tuple)):
            add(item[0])  # (ops, parameters and gradients) of minimize()
        else:
            add(item)
    return flat, ops


_MADE_MOST = 32  # copies of Programs that an Executor keeps; the engine keeps 64 plans
_ENDS_STEP = ("send", "send_barrier", "recv", "fetch_barrier")


def _joins_slices(op) -> bool:
    return op.type == "concat" and int(op.attr("op_role")) == int(OpRole.Dist)


class Executor(_core.Executor):
    """Runs Programs. Several threads may share one: their runs go on side by side. Each has plans and temporary memory of its own
    then, as many of them as runs were there at the same time (32 at most), which are kept for later runs until close().

    Args:
        place: fluid.CPUPlace(); None: the same.

    >>> x = fluid.data(name='x', shape=[None, 2])
    >>> y = fluid.layers.scale(x, 3.0)
    >>> exe = fluid.Executor(fluid.CPUPlace())
    >>> exe.run(fluid.default_startup_program())
    []
    >>> exe.run(feed={'x': np.ones((1, 2), 'float32')}, fetch_list=[y])
    [array([[3., 3.]], dtype=float32)]
    """

    def __init__(self, place: PlaceLike | None = None):
        if isinstance(place, (list, tuple)):
            place = place[0] if place else None
        self.place = check_place(place)

    def __repr__(self) -> str:
        return f"Executor({self.place!r})"

    def close(self) -> None:
        """Frees the plans; the executor runs nothing more. A trainer is done with its job then, and tells the servers.

        While an exception is on its way (`finally: exe.close()`) they hear it at the end of the process, which shows whether the
        trainer has failed, or a moment later when it lives on.
        """
        self._free()
        self.__dict__.pop("_made", None)
        farewell.say_goodbye()

    def _run_other(
        self,
        program=None,
        feed=None,
        fetch_list=None,
        feed_var_name=None,
        fetch_var_name=None,
        scope=None,
        return_numpy=None,
        use_program_cache=None,
        return_merged=None,
        use_prune=None,
    ) -> list:
        """run() with arguments in one of their rarer forms; puts them in plain form and runs."""
        from paddle.fluid.compiler import CompiledProgram, merge_feeds

        if program is None:
            program = default_main_program()
        if not isinstance(program, Program):
            if not isinstance(program, CompiledProgram):
                hint = " What a run shall return goes into fetch_list." if isinstance(program, Variable) else ""
                raise TypeError(f"Executor.run takes a Program or a CompiledProgram, found {shown.found(program)}.{hint}")
            if program._is_inference:
                return program._predict(feed)
            if program._exec_strategy is not None and program._exec_strategy._dry_run:
                return []
            several = program._on_places()
            program = program._what_runs()
        else:
            several = None
        if feed is not None and not isinstance(feed, dict):
            if not isinstance(feed, (list, tuple)) or not all(isinstance(each, dict) for each in feed):
                raise TypeError(
                    f"feed must be a dict of names and arrays, or a list of such dicts, found {shown.found(feed)}."
                )
            if several is None:
                feed = merge_feeds(feed)
        if scope is not None and not isinstance(scope, core.Scope):
            raise TypeError(f"scope must be a fluid.Scope, found {shown.found(scope)}.")
        fetches, ops = ([], []) if fetch_list is None else _flat_fetches(fetch_list)
        if ops and program._is_distributed:
            from paddle.fluid import executor_servers

            executor_servers.check_updates(program, ops)
            ops = []  # servers run them, in every step
        if ops or (use_prune and fetches):
            fed = feed[0] if isinstance(feed, (list, tuple)) and feed else feed
            away = self._on_servers(program, fetches, scope)
            program = self._pruned(program, fed, [each for i, each in enumerate(fetches) if i not in away], ops)
        arrays, merged = return_numpy is not False, return_merged is not False
        if several is not None:
            scope = global_scope() if scope is None else scope
            if program._is_distributed:
                self._come_back(program, scope)
            return several.run(self, program, feed, fetches, scope, arrays, merged)
        results = self.run(program, feed, fetches, scope=scope, return_numpy=arrays)
        return results if merged else [[each] for each in results]

    def _run_reading(self, program=None, feed=None, *others):
        """run() of a Program that reads from readers: what they give is fed."""
        from paddle.fluid import reader_program

        program = default_main_program() if program is None else program
        feed = reader_program.known_feeds(program, feed or {}, stacklevel=4)
        read = reader_program.next_feed(program)
        for name in [name for name in feed if name in read]:
            warnings.warn(
                f"The feed {name!r} is not used: a reader of the Program gives this variable. Feed it in a Program without the "
                "reader, or with an iterable DataLoader.", stacklevel=3,
            )  # fmt: skip
        return self._run_fed(program, {**feed, **read}, *others)

    def _come_back(self, program, scope) -> None:
        """Before a step of a trainer whose process had said goodbye: it begins with the parameters of now."""
        if not any(op.type in _ENDS_STEP for op in program.global_block().ops) or not _core._set_left(False):
            return
        from paddle.fluid import executor_servers

        _core._trains_on()
        executor_servers.receive_parameters(self, program, global_scope() if scope is None else scope)

    def _run_returning(self, program=None, feed=None, fetch_list=None, feed_name=None, fetch_name=None, scope=None, *others):
        """run() of a Program of a job whose process had said goodbye."""
        program = default_main_program() if program is None else program
        if any(op.type in _ENDS_STEP or op.type == "geo_sgd" for op in program.global_block().ops):
            data_passes.check_run()
        self._come_back(program, scope)
        has_left = _core._set_left(False)
        try:
            return self.run(program, feed, fetch_list, feed_name, fetch_name, scope, *others)
        finally:
            if has_left:
                _core._set_left(True)

    def _run_lacking(
        self, program=None, feed=None, fetch_list=None, feed_name=None, fetch_name=None, scope=None,
        return_numpy=None, *others
    ):  # fmt: skip
        """run() after it failed for want of a variable: once more, without feeds that the Program does not know, or with what
        lies on servers."""
        program = default_main_program() if program is None else program
        if any(not program.global_block().has_var(name) for name in feed or ()):
            return self._run_known(program, feed, fetch_list, feed_name, fetch_name, scope, return_numpy, *others)
        if not JOBS:
            return NotImplemented
        from paddle.fluid import executor_servers

        scope = global_scope() if scope is None else scope
        as_numpy = True if return_numpy is None else return_numpy
        return executor_servers.run(self, program, feed, list(fetch_list or ()), scope, as_numpy)

    def _run_known(self, program, feed: dict, *others):
        """run() with those feeds that the Program has; of the others it warns. A misspelt one leaves its variable without a
        value: then the error about the feed stands."""
        from paddle.fluid import reader_program

        known = reader_program.known_feeds(program, feed, stacklevel=5)
        try:
            return self.run(program, known, *others)
        except core.EnforceNotMet:
            if any(var.is_data and var.name not in known for var in program.global_block()._all_vars()):
                return NotImplemented
            raise

    def _on_servers(self, program, fetches: list, scope) -> dict:
        """Those of the fetches, by their place, that lie on the servers of a job."""
        if not JOBS:
            return {}
        from paddle.fluid import executor_servers

        return executor_servers.fetched_from_servers(program, fetches, global_scope() if scope is None else scope)

    def _pruned(self, program, feed, fetches: list, ops: list):
        """The Program cut down to what is fetched and to these ops of optimizers, or all of them; remembered while the
        Program stays the same."""
        names = tuple(_to_name_str(each) for each in fetches)
        what = "pruned", tuple(feed or ()), names, tuple(op._id for op in ops)
        return self._made_for(program, what, lambda: self._prune_program(program, list(feed or ()), names, ops))

    def _made_for(self, program, what, make):
        """What was made of this Program before, while it stays the same; those that were used last are kept."""
        made = self.__dict__.setdefault("_made", {})
        found = made.pop((program._uid, what), None)
        if found is None or found[0] != program._changes:
            found = program._changes, make()
        made[program._uid, what] = found
        for key in [*made][:-_MADE_MOST]:
            made.pop(key, None)  # another thread may have done so
        return found[1]

    def _prune_program(self, program, feeds: list, names: tuple, ops: list):
        """A copy that has only what the fetches and the ops of optimizers need."""
        for op in ops:
            if not op._is_optimize_op():
                raise TypeError(f"fetch_list holds the op {op.type!r}, which is none of an optimizer's.")
        copy = program.clone()
        block, wanted = copy.global_block(), {op._id for op in ops}
        updates = [op for op in block.ops if op._is_optimize_op()]
        # A step ends on servers with all that is sent there and comes back.
        targets = [*names, *(name for op in block.ops if op.type in _ENDS_STEP or _joins_slices(op)
                             for name in op.output_arg_names)]
        for op in updates:
            if not wanted or op._id in wanted:
                targets += op.output_arg_names
        copy._remove_parts([op for op in updates if wanted and op._id not in wanted])
        copy._keep_only(feeds, [name for name in dict.fromkeys(targets) if name not in feeds])
        return copy

    def train_from_dataset(
        self,
        program: Program | None = None,
        dataset: Any = None,
        scope: core.Scope | None = None,
        thread: int = 0,
        debug: bool = False,
        fetch_list: list | None = None,
        fetch_info: list[str] | None = None,
        print_period: int = 100,
        fetch_handler: FetchHandler | None = None,
    ) -> None:
        """Runs a Program once for each batch of a data set, by several threads that share the parameters (Hogwild).

        On a terminal a line shows how far it is, with samples a second; ``PADDLE_PROGRESS=json`` writes lines of JSON to standard
        error instead, ``PADDLE_PROGRESS=0`` nothing.

        Args:
            program: what to run; the default main Program where it is None.
            dataset: made by fluid.DatasetFactory.
            scope: where the parameters are; the global scope where it is None.
            thread: how many threads train; 0: as many as the data set was told by set_thread.
            debug: print at the end what the time was spent on, by op.
            fetch_list: variables that are printed now and then.
            fetch_info: what to call them there.
            print_period: after how many batches of the first thread.
            fetch_handler: gets values every so many seconds.

        Examples:
            .. code-block:: python

                import paddle.fluid as fluid

                with open("samples.txt", "w") as file:
                    file.writelines(f"1 {i / 100} 1 {i / 50}\\n" for i in range(100))
                x = fluid.data("x", [None, 1], dtype="float32")
                y = fluid.data("y", [None, 1], dtype="float32")
                loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
                fluid.optimizer.SGD(0.1).minimize(loss)
                dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
                dataset.set_use_var([x, y])
                dataset.set_batch_size(10)
                dataset.set_filelist(["samples.txt"])
                exe = fluid.Executor(fluid.CPUPlace())
                exe.run(fluid.default_startup_program())
                exe.train_from_dataset(dataset=dataset, fetch_list=[loss], fetch_info=["loss"], print_period=5)
        """
        from paddle.fluid import executor_dataset

        executor_dataset.run(self, program, dataset, scope, thread, debug, fetch_list, fetch_info, print_period, fetch_handler)

    def infer_from_dataset(
        self,
        program: Program | None = None,
        dataset: Any = None,
        scope: core.Scope | None = None,
        thread: int = 0,
        debug: bool = False,
        fetch_list: list | None = None,
        fetch_info: list[str] | None = None,
        print_period: int = 100,
        fetch_handler: FetchHandler | None = None,
    ) -> None:
        """The same as train_from_dataset without training: gradients and updates of the Program are left out, and its layers
        work as in tests.

        Args:
            program: what to run; the default main Program where it is None.
            dataset: made by fluid.DatasetFactory.
            scope: where the parameters are; the global scope where it is None.
            thread: how many threads run; 0: as many as the data set was told by set_thread.
            debug: print at the end what the time was spent on, by op.
            fetch_list: variables that are printed now and then.
            fetch_info: what to call them there.
            print_period: after how many batches of the first thread.
            fetch_handler: gets values every so many seconds.
        """
        from paddle.fluid import executor_dataset

        executor_dataset.run(self, program, dataset, scope, thread, debug, fetch_list, fetch_info, print_period, fetch_handler,
                             is_test=True)


class FetchHandler:
    """Shows variables while a data set is trained from; for Executor.train_from_dataset.

    Args:
        var_dict: {name to show: Variable}.
        period_secs: how often, in seconds.

    Examples:
        .. code-block:: python

            import paddle.fluid as fluid

            class Show(fluid.executor.FetchHandler):
                def handler(self, res_dict):
                    print(res_dict["loss"])
    """

    def __init__(self, var_dict: dict | None = None, period_secs: int = 60):
        if var_dict is None:
            raise ValueError("FetchHandler needs a var_dict: names and the Variables to show.")
        self.var_dict = var_dict
        self.period_secs = period_secs

    @staticmethod
    def help() -> None:
        """Prints how one is written."""
        import inspect

        print(inspect.cleandoc(FetchHandler.__doc__ or ""))

    def handler(self, res_dict: dict) -> None:
        """Called with the values; overwrite it to do more than print.

        Args:
            res_dict: {name: value}.
        """
        for key, value in res_dict.items():
            if isinstance(value, np.ndarray):
                print(f"{key}[0]: {value[0]}", end=" ")
        print()


def dtype_is_compatible_with(first, second) -> bool:
    """Are both the same element type?"""
    return convert_np_dtype_to_dtype_(first) == convert_np_dtype_to_dtype_(second)


def dimension_is_compatible_with(first, second) -> bool:
    """Could both be the same shape? None and negative sides fit any."""
    if len(first) != len(second):
        return False
    return all(a is None or b is None or a < 0 or b < 0 or a == b for a, b in zip(first, second))


def _as_lodtensor(data: Any, place, dtype=None) -> core.LoDTensor:
    """A number or an array as LoDTensor."""
    if isinstance(data, list):
        raise RuntimeError(
            "A list of sequences cannot become a tensor as it is. See fluid.create_lod_tensor."
        )
    if np.isscalar(data):
        if dtype is None:
            raise ValueError("A number needs a dtype to become a tensor.")
        data = np.array([data], dtype=DTYPE_NAMES[convert_np_dtype_to_dtype_(dtype)])
    tensor = core.LoDTensor()
    tensor.set(data, place)
    return tensor
