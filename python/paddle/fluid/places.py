"""Where things run. This build has the CPU only; the other places say so when they are made."""


class CPUPlace:
    """The CPU."""

    def _type(self) -> int:
        return 0

    def _equals(self, other) -> bool:
        return isinstance(other, (CPUPlace, Place))

    def __eq__(self, other) -> bool:
        return isinstance(other, CPUPlace)

    def __hash__(self) -> int:
        return hash(CPUPlace)

    def __str__(self) -> str:
        return "CPUPlace"

    def __repr__(self) -> str:
        return "CPUPlace()"


class _NoGpu:
    def __init__(self, *args, **kwargs):
        raise RuntimeError(
            f"{type(self).__name__} was asked for, but this build has no GPU. Use fluid.CPUPlace() instead; "
            "fluid.core.is_compiled_with_cuda() tells which one a script can use."
        )


class CUDAPlace(_NoGpu):
    """A GPU. Cannot be made in this build."""


class CUDAPinnedPlace(_NoGpu):
    """Memory that a GPU can read. Cannot be made in this build."""


class Place:
    """Any place: a CPU here."""

    def __init__(self):
        self._place = CPUPlace()

    def set_place(self, place) -> None:
        self._place = check_place(place)

    def is_cpu_place(self) -> bool:
        return True

    def _type(self) -> int:
        return self._place._type()

    def _equals(self, other) -> bool:
        return self._place._equals(other)

    def is_gpu_place(self) -> bool:
        return False

    def is_cuda_pinned_place(self) -> bool:
        return False

    def __str__(self) -> str:
        return str(self._place)


def check_place(place):
    """The place itself, or the CPU for None; anything that is no place is a TypeError."""
    if place is None:
        return CPUPlace()
    if not isinstance(place, (CPUPlace, CUDAPlace, CUDAPinnedPlace, Place)):
        raise TypeError(f"A place such as fluid.CPUPlace() is wanted, found {place!r}.")
    return place
