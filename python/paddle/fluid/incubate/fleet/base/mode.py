"""The kinds of Fleet."""

__all__ = ["Mode"]


class Mode:
    """Which Fleet an object is."""

    TRANSPILER = 1  # parameter servers by DistributeTranspiler
    PSLIB = 2
    COLLECTIVE = 3
