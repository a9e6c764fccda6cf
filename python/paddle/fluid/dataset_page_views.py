"""What upstream's InMemoryDataset has for samples of page views and for tables of pslib. Page views are not there: what asks for
them says so, and what asks for nothing passes.
"""

from __future__ import annotations

from typing import NoReturn

from paddle.fluid.log_helper import notice

_NO_VIEWS = "{}: merging samples by page view is not there. set_merge_by_lineid() merges those of one id."
_NO_TABLES = "{} has no effect: rows of tables are made when they are first touched (docs/TABLES.md)."


def _only_false(name: str, value: bool) -> None:
    if value:
        raise NotImplementedError(_NO_VIEWS.format(f"{name}(True)"))


class PageViews:
    """A part of InMemoryDataset."""

    def set_parse_logkey(self, parse_logkey: bool) -> None:
        """Upstream's log keys of page views; not there.

        Args:
            parse_logkey: False.
        """
        _only_false("set_parse_logkey", parse_logkey)

    def set_merge_by_sid(self, merge_by_sid: bool) -> None:
        """Upstream's merging of samples by page view; not there.

        Args:
            merge_by_sid: False.
        """
        _only_false("set_merge_by_sid", merge_by_sid)

    def set_enable_pv_merge(self, enable_pv_merge: bool) -> None:
        """Upstream's merging of samples by page view; not there.

        Args:
            enable_pv_merge: False.
        """
        _only_false("set_enable_pv_merge", enable_pv_merge)

    def preprocess_instance(self) -> NoReturn:
        """Raises: it merged samples by page view."""
        raise NotImplementedError(_NO_VIEWS.format("preprocess_instance()"))

    def postprocess_instance(self) -> NoReturn:
        """Raises: it parted samples that were merged by page view."""
        raise NotImplementedError(_NO_VIEWS.format("postprocess_instance()"))

    def set_current_phase(self, current_phase: int) -> None:
        """Which part of training by page views it is; accepted, for there is one part.

        Args:
            current_phase: 1 joins, 0 updates.
        """

    def get_pv_data_size(self) -> int:
        """Page views in memory: 0, as no samples are merged."""
        return 0

    def set_generate_unique_feasigns(self, generate_uni_feasigns: bool, shard_num: int) -> None:
        """Listed all ids for tables of pslib; accepted, for rows are made when they are first touched.

        Args:
            generate_uni_feasigns: not used.
            shard_num: not used.
        """
        if generate_uni_feasigns:
            notice(_NO_TABLES.format("set_generate_unique_feasigns"))

    def generate_local_tables_unlock(self, table_id: int, fea_dim: int, read_thread_num: int, consume_thread_num: int,
                                     shard_num: int) -> None:
        """Filled tables of pslib before they were used; accepted, for rows are made when they are first touched.

        Args:
            table_id: not used.
            fea_dim: not used.
            read_thread_num: not used.
            consume_thread_num: not used.
            shard_num: not used.
        """
        notice(_NO_TABLES.format("generate_local_tables_unlock"))
