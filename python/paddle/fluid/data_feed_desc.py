"""DataFeedDesc: what stands on the lines of data files, as upstream's text files of the message of that name say it."""

from __future__ import annotations

from collections.abc import Sequence

from paddle.fluid import shown
from paddle.fluid.proto import table_message
from paddle.fluid.proto.table_message import Field

__all__ = ["DataFeedDesc"]

_FEED = "MultiSlotDataFeed"


class SlotMessage(table_message.Message):
    """One slot of a line."""

    fields = {"name": Field(1, "string"), "type": Field(2, "string"), "is_dense": Field(3, "bool"), "is_used": Field(4, "bool"),
              "shape": Field(5, "int32", repeated=True)}


class MultiSlotMessage(table_message.Message):
    """All slots."""

    fields = {"slots": Field(1, SlotMessage, repeated=True)}


class DataFeedMessage(table_message.Message):
    """The description as a whole."""

    fields = {"name": Field(1, "string"), "batch_size": Field(2, "int32", 32), "multi_slot_desc": Field(3, MultiSlotMessage),
              "pipe_command": Field(4, "string"), "thread_num": Field(5, "int32"), "rank_offset": Field(6, "string"),
              "pv_batch_size": Field(7, "int32", 32), "input_type": Field(8, "int32"), "so_parser_name": Field(9, "string")}


class DataFeedDesc:
    """A description of data files, read from a text file such as

    .. code-block:: text

        name: "MultiSlotDataFeed"
        batch_size: 2
        multi_slot_desc {
            slots {
                name: "words"
                type: "uint64"
                is_dense: false
                is_used: true
            }
        }

    Slots that are not used are read over. fluid.AsyncExecutor takes one; a data set of fluid.DatasetFactory says the same with its
    own methods.

    Args:
        proto_file: the path of the text file.

    Examples:
        .. code-block:: python

            import paddle.fluid as fluid

            with open("feed.prototxt", "w") as file:
                file.write('name: "MultiSlotDataFeed" multi_slot_desc { slots { name: "words" type: "uint64" } }')
            desc = fluid.DataFeedDesc("feed.prototxt")
            desc.set_batch_size(128)
            desc.set_use_slots(["words"])
            print(desc.desc())
    """

    def __init__(self, proto_file: str):
        self.proto_desc = DataFeedMessage(pipe_command="cat")
        with open(proto_file) as file:
            try:
                self.proto_desc.merge_text(file.read())
            except table_message.TextError as error:
                raise ValueError(f"DataFeedDesc: {proto_file}, {shown.sentence(str(error))}") from None
        self._slots = {}
        if self.proto_desc.name == _FEED:
            self._slots = {slot.name: slot for slot in self.proto_desc.multi_slot_desc.slots}

    def set_batch_size(self, batch_size: int) -> None:
        """Samples of a batch.

        Args:
            batch_size: 1 or more.
        """
        self.proto_desc.batch_size = batch_size

    def set_dense_slots(self, dense_slots_name: Sequence[str]) -> None:
        """These slots have as many numbers in each sample as their variable's shape says; others are sequences.

        Args:
            dense_slots_name: their names.
        """
        for slot in self._named("set_dense_slots", dense_slots_name):
            slot.is_dense = True

    def set_use_slots(self, use_slots_name: Sequence[str]) -> None:
        """These slots are fed; others are read over.

        Args:
            use_slots_name: their names.
        """
        for slot in self._named("set_use_slots", use_slots_name):
            slot.is_used = True

    def _named(self, what: str, names: Sequence[str]) -> list[SlotMessage]:
        if self.proto_desc.name != _FEED:
            raise ValueError(f"Only {_FEED} needs {what}, please check your datafeed.proto")
        for name in names:
            if name not in self._slots:
                raise KeyError(name)
        return [self._slots[name] for name in names]

    def desc(self) -> str:
        """The description as text."""
        return str(self.proto_desc)
