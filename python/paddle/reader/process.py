"""Readers that get their samples from other processes: forked readers, or the output of a command."""

from __future__ import annotations

import codecs
import multiprocessing
import queue
import shlex
import subprocess
import traceback
import zlib
from typing import Any, Callable, Iterable, Iterator, Sequence

Reader = Callable[[], Iterable[Any]]

__all__ = ["multiprocess_reader", "PipeReader", "pipe_reader"]

# The three kinds of message a forked reader sends.
_SAMPLE, _END, _ERROR = range(3)


def _serve(reader: Reader, send: Callable[[tuple[int, Any]], None]) -> None:
    """Runs in the forked process: sends each sample, then how it ended."""
    try:
        for sample in reader():
            if sample is None:
                raise ValueError("the reader gave None as a sample")
            send((_SAMPLE, sample))
    except (Exception, SystemExit):
        send((_ERROR, traceback.format_exc()))
    else:
        send((_END, None))


def _failed(place: int, what: str) -> ValueError:
    return ValueError(f"paddle.reader.multiprocess_reader: reader {place} failed.\n{what}")


def multiprocess_reader(readers: Sequence[Reader], use_pipe: bool = True, queue_size: int = 1000) -> Reader:
    """Run each reader in a process of its own and merge their samples.

    With pipes the readers take turns; with `use_pipe=False` samples come through one queue of
    `queue_size` places, in the order they arrive. Samples are pickled, so arrays and tuples stay so.

    Args:
        readers: functions that give iterables of samples.
        use_pipe: a pipe for each process; else one queue.
        queue_size: the places of the queue.

    Returns:
        a reader.
    """
    if not isinstance(readers, (list, tuple)) or not readers:
        raise ValueError(
            "paddle.reader.multiprocess_reader: readers must be a list of at least one reader, "
            f"got {readers!r}."
        )
    # Readers are closures, which only a fork can hand to another process.
    context = multiprocessing.get_context("fork")

    def end(children: list) -> None:
        for child in children:
            child.terminate()
        for child in children:
            child.join()

    def pipe_merged() -> Iterator[Any]:
        children, open_ends = [], {}
        try:
            for place, reader in enumerate(readers):
                here, there = context.Pipe(duplex=False)
                child = context.Process(target=_serve, args=(reader, there.send), daemon=True)
                child.start()
                there.close()
                children.append(child)
                open_ends[place] = here
            while open_ends:
                for place, here in list(open_ends.items()):
                    try:
                        kind, value = here.recv()
                    except EOFError:
                        raise _failed(place, "Its process ended without a word.") from None
                    if kind == _SAMPLE:
                        yield value
                    elif kind == _ERROR:
                        raise _failed(place, value)
                    else:
                        open_ends.pop(place).close()
        finally:
            end(children)
            for here in open_ends.values():
                here.close()

    def queue_merged() -> Iterator[Any]:
        box = context.Queue(queue_size)
        children: list = []
        try:
            for place, reader in enumerate(readers):

                def send(message: tuple[int, Any], place: int = place) -> None:
                    box.put((place, message))

                children.append(context.Process(target=_serve, args=(reader, send), daemon=True))
                children[-1].start()
            running, silent = set(range(len(children))), set()
            while running:
                try:
                    place, (kind, value) = box.get(timeout=1.0)
                except queue.Empty:
                    for place in sorted(running):
                        code = children[place].exitcode
                        if place in silent:  # its last words would have come by now
                            raise _failed(place, f"Its process ended with code {code}.") from None
                        if code is not None:
                            silent.add(place)
                    continue
                if kind == _SAMPLE:
                    yield value
                elif kind == _ERROR:
                    raise _failed(place, value)
                else:
                    running.discard(place)
        finally:
            end(children)
            box.close()

    return pipe_merged if use_pipe else queue_merged


class PipeReader:
    """Reads what a command writes to its standard output, as text.

    Args:
        command: a command line, without a shell.
        bufsize: how many bytes are read at a time.
        file_type: 'plain', or 'gzip' for zipped output.

    >>> list(paddle.reader.PipeReader("echo one line").get_line())
    ['one line']
    """

    def __init__(self, command: str, bufsize: int = 8192, file_type: str = "plain") -> None:
        if not isinstance(command, str):
            raise TypeError(f"PipeReader: command must be a string, got {type(command).__name__}.")
        if file_type not in ("plain", "gzip"):
            raise TypeError(f"PipeReader: file_type must be 'plain' or 'gzip', got {file_type!r}.")
        self.command = command
        self.file_type = file_type
        self.bufsize = bufsize
        self.process = subprocess.Popen(shlex.split(command), bufsize=bufsize, stdout=subprocess.PIPE)

    def get_line(self, cut_lines: bool = True, line_break: str = "\n") -> Iterator[str]:
        """Yield the lines without their breaks; with `cut_lines=False`, pieces as they come.

        Args:
            cut_lines: give lines; else pieces.
            line_break: what ends a line.

        Returns:
            texts.
        """
        rest = ""
        for piece in self._text():
            if cut_lines:
                *lines, rest = (rest + piece).split(line_break)
                yield from lines
            else:
                yield piece
        if rest:
            yield rest

    def _text(self) -> Iterator[str]:
        decode = codecs.getincrementaldecoder("utf-8")().decode
        stdout = self.process.stdout
        assert stdout is not None
        try:
            for data in _unpack(iter(lambda: stdout.read(self.bufsize), b""), self.file_type):
                if text := decode(data):
                    yield text
            decode(b"", True)
        except GeneratorExit:
            self.process.terminate()
            raise
        finally:
            stdout.close()
            code = self.process.wait()
        if code:
            raise RuntimeError(f"PipeReader: the command '{self.command}' ended with code {code}.")


def _unpack(pieces: Iterable[bytes], file_type: str) -> Iterator[bytes]:
    """Undo gzip, also where several gzip files follow each other."""
    if file_type == "plain":
        yield from pieces
        return
    unzip = zlib.decompressobj(32 + zlib.MAX_WBITS)
    for piece in pieces:
        yield unzip.decompress(piece)
        while unzip.eof and unzip.unused_data:
            piece = unzip.unused_data
            unzip = zlib.decompressobj(32 + zlib.MAX_WBITS)
            yield unzip.decompress(piece)


def pipe_reader(
    left_cmd: str,
    parser: Callable[[Any], Iterable[Any]],
    bufsize: int = 8192,
    file_type: str = "plain",
    cut_lines: bool = True,
    line_break: str = "\n",
) -> Reader:
    """Return a reader of what `parser` makes of a command's output.

    The parser gets a list of lines, or with `cut_lines=False` a piece of text, and returns samples.

    Args:
        left_cmd: a command line, without a shell.
        parser: a function from lines (or a piece) to samples.
        bufsize: how many bytes are read at a time.
        file_type: 'plain', or 'gzip' for zipped output.
        cut_lines: give the parser lines; else pieces.
        line_break: what ends a line.

    Returns:
        a reader.
    """
    if not isinstance(left_cmd, str):
        raise TypeError(f"pipe_reader: left_cmd must be a string, got {type(left_cmd).__name__}.")
    if not callable(parser):
        raise TypeError(f"pipe_reader: parser must be a function, got {type(parser).__name__}.")

    def reader() -> Iterator[Any]:
        for got in PipeReader(left_cmd, bufsize, file_type).get_line(cut_lines, line_break):
            yield from parser([got] if cut_lines else got)

    return reader
