"""Line plots as PNG files, with numpy and zlib only: axes with ticks, a small bitmap font, smooth curves.

    plot.save("loss.png", [plot.Curve(steps, losses, "loss")], title="DIGITS", x_label="STEP", y_label="LOSS")
"""

from __future__ import annotations

import math
import struct
import zlib
from dataclasses import dataclass
from typing import Sequence

import numpy as np

WHITE, BLACK, GRID = (255, 255, 255), (40, 40, 40), (225, 225, 225)
FINE = 3  # curves are drawn this much larger and scaled down, which smooths them

# 5 x 7 dots a letter, a row in two hex digits, the left dot in the highest of five bits.
FONT = {
    " ": "00000000000000", "0": "0e11131519110e", "1": "040c040404040e", "2": "0e11010204081f",
    "3": "1f02040201110e", "4": "02060a121f0202", "5": "1f101e0101110e", "6": "0608101e11110e",
    "7": "1f010204080808", "8": "0e11110e11110e", "9": "0e11110f01020c", ".": "00000000000c0c",
    ",": "00000000040408", "-": "0000001f000000", "+": "0004041f040400", ":": "000c0c000c0c00",
    "%": "18190204081303", "/": "00010204081000", "(": "02040808080402", ")": "08040202020408",
    "A": "0e11111f111111", "B": "1e11111e11111e", "C": "0e11101010110e", "D": "1c12111111121c",
    "E": "1f10101e10101f", "F": "1f10101e101010", "G": "0e11101711110f", "H": "1111111f111111",
    "I": "0e04040404040e", "J": "0702020202120c", "K": "11121418141211", "L": "1010101010101f",
    "M": "111b1515111111", "N": "11191915131311", "O": "0e11111111110e", "P": "1e11111e101010",
    "Q": "0e11111115120d", "R": "1e11111e141211", "S": "0f10100e01011e", "T": "1f040404040404",
    "U": "1111111111110e", "V": "11111111110a04", "W": "1111111515150a", "X": "11110a040a1111",
    "Y": "1111110a040404", "Z": "1f01020408101f",
}


@dataclass
class Curve:
    """Points of one line. `color` is (red, green, blue), `width` in pixels."""

    x: Sequence[float]
    y: Sequence[float]
    name: str = ""
    color: tuple[int, int, int] = (31, 119, 180)
    width: float = 1.6


def text_dots(text: str) -> np.ndarray:
    """The dots of a text as a boolean array of 7 rows. Letters are shown as capitals."""
    letters = [np.zeros((7, 0), bool)]
    for letter in text.upper():
        rows = np.frombuffer(bytes.fromhex(FONT.get(letter, FONT[" "])), np.uint8)
        dots = rows[:, None] >> np.arange(4, -1, -1) & 1
        letters.append(np.pad(dots.astype(bool), ((0, 0), (0, 1))))
    return np.concatenate(letters, axis=1)


def nice_ticks(low: float, high: float, wanted: int) -> list[float]:
    """About `wanted` round numbers between low and high."""
    raw = (high - low) / max(wanted, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def tick_text(value: float) -> str:
    return f"{value:.4g}" if value else "0"


def limits(values: np.ndarray) -> tuple[float, float]:
    """Smallest and largest number, a little apart even when all are equal."""
    values = values[np.isfinite(values)]
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    if high - low < 1e-12 * max(abs(low), abs(high), 1.0):
        low, high = low - 0.5, high + 0.5
    return low, high


class Canvas:
    """A picture in memory. Row 0 is at the top."""

    def __init__(self, width: int, height: int):
        self.pixels = np.full((height, width, 3), 255, np.uint8)

    def box(self, left: int, top: int, right: int, bottom: int, color) -> None:
        """Fills [left, right) x [top, bottom); what lies outside the picture is cut off."""
        self.pixels[max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)] = color

    def text(self, x: float, y: float, text: str, align: float = 0.0, scale: int = 1, upright=False) -> None:
        """Puts the left end (align 0), the middle (0.5) or the right end (1) of a text at x, its middle at y.

        Upright text reads from bottom to top; its middle is at (x, y).
        """
        dots = text_dots(text).repeat(scale, 0).repeat(scale, 1)
        if upright:
            dots, align = np.rot90(dots), 0.5
        height, width = dots.shape
        left, top = round(x - align * width), round(y - height / 2)
        rows, columns = np.nonzero(dots)
        rows, columns = rows + top, columns + left
        inside = (rows >= 0) & (rows < len(self.pixels)) & (columns >= 0) & (columns < self.pixels.shape[1])
        self.pixels[rows[inside], columns[inside]] = BLACK

    def line(self, x, y, color, width: float, area: tuple[int, int, int, int]) -> None:
        """A line through points in pixels, inside `area` (left, top, right, bottom), with soft edges."""
        left, top, right, bottom = area
        mask = np.zeros(((bottom - top) * FINE, (right - left) * FINE), bool)
        x, y = (np.asarray(x) - left) * FINE, (np.asarray(y) - top) * FINE
        # Points close enough to each other that dots of the pen's size make a line.
        lengths = np.maximum(np.hypot(np.diff(x), np.diff(y)), 1e-9)
        place = np.concatenate([[0.0], np.cumsum(lengths)])
        fine = np.linspace(0.0, place[-1], 2 * int(place[-1]) + 2)
        xs, ys = np.interp(fine, place, x), np.interp(fine, place, y)
        reach = width * FINE / 2
        steps = np.arange(-math.ceil(reach), math.ceil(reach) + 1)
        for dx in steps:
            for dy in steps:
                if dx * dx + dy * dy <= reach * reach + 0.25:
                    columns, rows = np.floor(xs + dx).astype(int), np.floor(ys + dy).astype(int)
                    inside = (columns >= 0) & (columns < mask.shape[1]) & (rows >= 0) & (rows < mask.shape[0])
                    mask[rows[inside], columns[inside]] = True
        cover = mask.reshape(bottom - top, FINE, right - left, FINE).mean(axis=(1, 3))[..., None]
        under = self.pixels[top:bottom, left:right]
        self.pixels[top:bottom, left:right] = np.rint(under * (1 - cover) + np.array(color) * cover)

    def png(self) -> bytes:
        """The picture as the bytes of a PNG file."""
        height, width, _ = self.pixels.shape
        rows = np.concatenate([np.zeros((height, 1), np.uint8), self.pixels.reshape(height, -1)], axis=1)

        def chunk(kind: bytes, data: bytes) -> bytes:
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

        head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits, RGB
        return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows.tobytes(), 9))
                + chunk(b"IEND", b""))


def draw(curves: Sequence[Curve], title="", x_label="", y_label="", width=960, height=540, legend=0.0) -> Canvas:
    """Draws curves over axes that fit all of them; their names stand at the right, so far down (0 to 1)."""
    canvas = Canvas(width, height)
    left, top, right, bottom = 90, 48, width - 24, height - 64
    x_low, x_high = limits(np.concatenate([np.asarray(curve.x, float) for curve in curves]))
    y_low, y_high = limits(np.concatenate([np.asarray(curve.y, float) for curve in curves]))
    margin = 0.04 * (y_high - y_low)
    y_low, y_high = (0.0 if 0 <= y_low < 0.3 * y_high else y_low - margin), y_high + margin

    def to_x(value):
        return left + (np.asarray(value, float) - x_low) / (x_high - x_low) * (right - left - 1)

    def to_y(value):
        return bottom - 1 - (np.asarray(value, float) - y_low) / (y_high - y_low) * (bottom - top - 1)

    for value in nice_ticks(y_low, y_high, 6):
        at = round(float(to_y(value)))
        canvas.box(left, at, right, at + 1, GRID)
        canvas.text(left - 10, at, tick_text(value), align=1.0, scale=2)
    for value in nice_ticks(x_low, x_high, 8):
        at = round(float(to_x(value)))
        canvas.box(at, top, at + 1, bottom, GRID)
        canvas.box(at, bottom, at + 1, bottom + 5, BLACK)
        canvas.text(at, bottom + 16, tick_text(value), align=0.5, scale=2)
    canvas.box(left - 1, top, left, bottom, BLACK)
    canvas.box(left - 1, bottom, right, bottom + 1, BLACK)

    for curve in curves:
        good = np.isfinite(np.asarray(curve.y, float))
        x, y = np.asarray(curve.x, float)[good], np.asarray(curve.y, float)[good]
        if len(x):
            canvas.line(to_x(x), to_y(y), curve.color, curve.width, (left, top, right, bottom))
    place = top + 14 + round(legend * (bottom - top))
    start = right - 12 - 12 * max((len(curve.name) for curve in curves), default=0)
    for curve in (curve for curve in curves if curve.name):
        canvas.box(start - 30, place - 1, start - 8, place + 2, curve.color)
        canvas.text(start, place, curve.name, scale=2)
        place += 22
    canvas.text((left + right) / 2, 22, title, align=0.5, scale=2)
    canvas.text((left + right) / 2, height - 18, x_label, align=0.5, scale=2)
    canvas.text(18, (top + bottom) / 2, y_label, scale=2, upright=True)
    return canvas


def save(path: str, curves: Sequence[Curve], **options) -> None:
    """Draws curves (see draw) and writes them to a PNG file."""
    data = draw(curves, **options).png()
    with open(path, "wb") as file:
        file.write(data)


def smooth(values: Sequence[float], keep: float = 0.95) -> list[float]:
    """A running mean that forgets slowly and is not pulled towards zero at its start."""
    mean, weight, out = 0.0, 0.0, []
    for value in values:
        mean, weight = keep * mean + (1 - keep) * value, keep * weight + (1 - keep)
        out.append(mean / weight)
    return out
