"""Loggers for the modules that report progress. `logging` is loaded when the first one is asked for."""

__all__ = ["get_logger"]


def get_logger(name: str, level: int, fmt: str | None = None):
    """Returns the logger `name` at `level`; it writes to stderr on its own, with `fmt` if one is given."""
    import logging

    logger = logging.getLogger(name)
    logger.setLevel(level)
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.StreamHandler())
    if fmt:
        for handler in logger.handlers:
            handler.setFormatter(logging.Formatter(fmt))
    return logger


def notice(text: str) -> None:
    """Tells the user, once per process and text, of something that was accepted but has no effect."""
    if text not in _told:
        _told.add(text)
        tell(text)


def tell(text: str) -> None:
    """Tells the user."""
    import sys

    print(f"paddle: {text}", file=sys.stderr)


def log_line(text: str) -> None:
    """A line on stderr that looks like those of the engine, and is left out where FLAGS_log_level leaves its own out."""
    import sys
    import time

    from paddle import _core

    if _core.flag_get("log_level") in ("info", "debug"):
        sys.stderr.write(f"{time.strftime('%H:%M:%S')} paddle: info: {text}\n")
        sys.stderr.flush()


_told: set = set()
