"""python -m paddle.distributed.fleet.launch: another name of `python -m paddle.distributed.launch`."""

from paddle.distributed.launch import launch

__all__ = ["launch"]

if __name__ == "__main__":
    launch()
