"""Which part of which variable lies on which server: what saving, loading and tools ask a Program about."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class VarStruct:
    """What a variable is, apart from its Program."""

    name: str
    shape: tuple
    dtype: object
    type: object
    lod_level: int
    persistable: bool

    @staticmethod
    def of(var, name: str | None = None, shape=None, persistable: bool | None = None) -> "VarStruct":
        return VarStruct(
            name=var.name if name is None else name,
            shape=tuple(var.shape if shape is None else shape),
            dtype=var.dtype,
            type=var.type,
            lod_level=var.lod_level,
            persistable=var.persistable if persistable is None else persistable,
        )


@dataclass
class VarDistributed:
    """One slice of a variable (or the whole of it).

    vtype: Param, RemotePrefetch (a parameter that trainers fetch rows of), Optimizer (state of an update),
    Schedule (state of the learning rate) or HandedOut (trainers get it once, with their startup Program; then it is theirs). offset
    counts elements.
    """

    origin: VarStruct
    slice: VarStruct
    is_slice: bool
    block_id: int
    offset: int
    vtype: str
    endpoint: str

    def __str__(self) -> str:
        where = f" elements from {self.offset}" if self.is_slice else ""
        whole = f"{self.vtype} {self.origin.name}{list(self.origin.shape)}"
        return f"{whole}{where} is {self.slice.name} on {self.endpoint}"


class VarsDistributed:
    """All of them. A transpiled Program has it as `_parameters_on_pservers`.

    job: what was transpiled (transpiler/job.py); None when somebody else made the list. rates: what servers
    compute of the learning rate in each step and do not keep for the next. table_states: states of which each row of the
    distributed table has its own, where its rows are made when they are first trained (is_hashed).
    table_height: ids of that table are below it; 0: there is no vocabulary.
    """

    def __init__(self, job=None):
        self.distributed_vars: list[VarDistributed] = []
        self.rates: dict[str, VarDistributed] = {}
        self.table_states: list[str] = []
        self.is_hashed = False
        self.table_height = 0
        self.job = job

    def add(self, var: VarDistributed) -> None:
        self.distributed_vars.append(var)

    def add_distributed_var(
        self,
        origin_var,
        slice_var,
        is_slice: bool | None = None,
        block_id: int | None = None,
        offset: int | None = None,
        vtype: str | None = None,
        endpoint: str | None = None,
    ) -> None:
        """Adds a slice, given as Variables or VarStructs. Without is_slice, it is one when it is smaller."""
        origin, part = VarStruct.of(origin_var), VarStruct.of(slice_var)
        is_slice = origin.shape != part.shape if is_slice is None else bool(is_slice)
        self.add(VarDistributed(origin, part, is_slice, block_id or 0, offset or 0, vtype, endpoint))

    def get_distributed_var_by_slice(self, var_name: str) -> VarDistributed | None:
        """The one whose slice has this name."""
        return next((var for var in self.distributed_vars if var.slice.name == var_name), None)

    def get_distributed_var_by_origin_and_ep(
        self, origin_var_name: str, endpoint: str
    ) -> VarDistributed | None:
        """The first slice of a variable on a server."""
        return next(
            (
                var
                for var in self.distributed_vars
                if var.origin.name == origin_var_name and var.endpoint == endpoint
            ),
            None,
        )

    def get_distributed_vars_by_vtypes(self, vtypes, groupby: bool = False):
        """Those of the given kinds: a list, or with `groupby` a dict from the whole variable's name to its
        slices.
        """
        found = [var for var in self.distributed_vars if var.vtype in vtypes]
        if not groupby:
            return found
        groups: dict = {}
        for var in found:
            groups.setdefault(var.origin.name, []).append(var)
        return groups

    def get_distributed_vars_by_ep(self, endpoint: str, vtype: str | None = None) -> list[VarDistributed]:
        """Those on a server."""
        return [
            var
            for var in self.distributed_vars
            if var.endpoint == endpoint and (not vtype or var.vtype == vtype)
        ]

    def overview(self) -> str:
        """All of them as text, one a line."""
        return "\n".join(str(var) for var in self.distributed_vars)
