"""A proxy that is far away, or slow: jobs run through it by PADDLE_PS_MAP."""

import asyncio
import contextlib
import threading
import time


class LongWay(threading.Thread):
    """All that goes to or comes from an endpoint arrives this much later, and a connection brings so many bytes
    a second back. (What it takes is away at once, as the sender sees it.)"""

    def __init__(self, endpoint: str, seconds: float, rate: float = 1e9):
        super().__init__(daemon=True)
        self.endpoint, self.seconds, self.rate, self.loop = endpoint, seconds, rate, asyncio.new_event_loop()
        self.server = self.loop.run_until_complete(asyncio.start_server(self.come, "127.0.0.1", 0))
        self.map = f"{endpoint}=127.0.0.1:{self.server.sockets[0].getsockname()[1]}"

    async def come(self, reader, writer) -> None:
        with contextlib.suppress(OSError):
            there, back = await asyncio.open_connection(*self.endpoint.rsplit(":", 1))
            await asyncio.gather(self.carry(reader, back, 1e9), self.carry(there, writer, self.rate))
        writer.close()

    async def carry(self, reader, writer, rate: float) -> None:
        under_way: asyncio.Queue = asyncio.Queue()

        async def take() -> None:
            data = b"-"
            while data:
                try:
                    data = await reader.read(min(65536, int(rate / 20)))
                except OSError:
                    data = b""
                under_way.put_nowait((time.monotonic() + self.seconds, data))
                await asyncio.sleep(len(data) / rate)

        taking = asyncio.ensure_future(take())
        while True:
            at, data = await under_way.get()
            await asyncio.sleep(max(0, at - time.monotonic()))
            with contextlib.suppress(OSError):
                if not data:
                    writer.close()
                    break
                writer.write(data)
                await writer.drain()
        await taking

    def run(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            self.loop.run_until_complete(self.server.serve_forever())
        left = asyncio.all_tasks(self.loop)
        for task in left:
            task.cancel()
        if left:
            self.loop.run_until_complete(asyncio.wait(left))
        self.loop.close()

    def __enter__(self) -> "LongWay":
        self.start()
        return self

    def __exit__(self, *_) -> None:
        self.loop.call_soon_threadsafe(self.server.close)
        self.join(10)
