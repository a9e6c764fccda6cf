"""A table of the time each kind of op took, between start and stop."""

import contextlib
from typing import Iterator

from paddle import _core

__all__ = ["cuda_profiler", "reset_profiler", "profiler", "start_profiler", "stop_profiler"]

_STATES = ("CPU", "GPU", "All")
_KEYS = ("default", "calls", "total", "max", "min", "ave")
_TRACES = ("Default", "OpDetail", "AllOpDetail")
_running = False


def is_profiler_enabled() -> bool:
    """Tells whether a profile is being taken."""
    return _running


def reset_profiler() -> None:
    """Forgets what was measured so far."""
    _core.profiler_reset()


def start_profiler(state: str, tracer_option: str = "Default") -> None:
    """Starts to measure. `state` says whose ops: 'CPU', or 'GPU' and 'All', which here mean the same.

    Args:
        state: 'CPU', 'GPU' or 'All'.
        tracer_option: has no effect.
    """
    global _running
    if state not in _STATES:
        raise ValueError(f"start_profiler: state is {state!r}; it must be one of {', '.join(_STATES)}.")
    if tracer_option not in _TRACES:
        raise ValueError(
            f"start_profiler: tracer_option is {tracer_option!r}; it must be one of {', '.join(_TRACES)}."
        )
    if _running:
        return
    _core.profiler_reset()
    _core.profiler_start()
    _running = True


def stop_profiler(sorted_key: str | None = None, profile_path: str | None = "/tmp/profile") -> None:
    """Stops, prints the table, and writes it to `profile_path` (None: to no file).

    `sorted_key` is 'calls', 'total', 'max', 'min' or 'ave' (in ms); by default, the total.

    Args:
        sorted_key: 'calls', 'total', 'max', 'min' or 'ave'; None: the total.
        profile_path: the file; None: none.
    """
    global _running
    key = "default" if sorted_key is None else sorted_key
    if key not in _KEYS:
        raise ValueError(
            f"stop_profiler: sorted_key is {sorted_key!r}; it must be None or one of {', '.join(_KEYS[1:])}."
        )
    if not _running:
        return
    _core.profiler_stop()
    _running = False
    table = _core.profiler_report("total" if key == "default" else key)
    print(table)
    if profile_path:
        with open(profile_path, "w", encoding="utf-8") as file:
            file.write(table)


@contextlib.contextmanager
def profiler(
    state: str,
    sorted_key: str | None = None,
    profile_path: str | None = "/tmp/profile",
    tracer_option: str = "Default",
) -> Iterator[None]:
    """Measures the body: start_profiler before, stop_profiler after.

    Args:
        state: 'CPU', 'GPU' or 'All', which here mean the same.
        sorted_key: 'calls', 'total', 'max', 'min' or 'ave'; None: the total.
        profile_path: the file; None: none.
        tracer_option: has no effect.
    """
    start_profiler(state, tracer_option)
    try:
        yield
    finally:
        stop_profiler(sorted_key, profile_path)


@contextlib.contextmanager
def cuda_profiler(
    output_file: str, output_mode: str | None = None, config: list | None = None
) -> Iterator[None]:
    """Not there: it drives NVIDIA's nvprof, and this build has no CUDA.

    Args:
        output_file: the file.
        output_mode: 'kvp' or 'csv'.
        config: counters.
    """
    raise RuntimeError(
        "cuda_profiler needs a build with CUDA, and this one has none. Use fluid.profiler.profiler('CPU')."
    )
    yield
