"""The examples run as they are, and what they train gets better."""

import importlib
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
sys.path.insert(0, str(EXAMPLES))
from demo_members import children, find_members  # noqa: E402


def run(tmp_path, name, *words, **env):
    """Runs an example in an empty folder, with stand-ins for the data that are not in the clone."""
    settings = {"PADDLE_DATASET_HOME": str(tmp_path / "data"), "PADDLE_DATASET_SYNTHETIC": "1"} | env
    return subprocess.run([sys.executable, str(EXAMPLES / name), *map(str, words)], cwd=tmp_path, text=True,
                          capture_output=True, timeout=300, env=os.environ | settings)


def losses(done):
    """The losses of the training lines of an example."""
    assert done.returncode == 0, done.stdout + done.stderr
    found = [float(text) for text in re.findall(r"step \d+: loss ([-\d.einfa]+)", done.stdout)]
    assert np.isfinite(found).all(), done.stdout
    return found


def assert_falls(found):
    first, last = np.mean(found[: max(len(found) // 20, 1)]), np.mean(found[-max(len(found) // 4, 1) :])
    assert last < 0.95 * first, f"the loss does not fall: {found}"


def test_fit_a_line_ends_well(tmp_path):
    done = run(tmp_path, "fit_a_line.py", PADDLE_DATASET_HOME=str(ROOT / "tests" / "data"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "fit_a_line.model" / "fc_0.w_0").exists()


@pytest.mark.parametrize("net, steps", [("mlp", 30), ("lenet", 12)])
def test_recognize_digits(tmp_path, net, steps):
    done = run(tmp_path, "recognize_digits.py", "--net", net, "--steps", steps, "--every", 1)
    assert_falls(losses(done))
    labels = re.search(r"^inferred (.*)$", done.stdout, re.MULTILINE).group(1)
    again = run(tmp_path, "recognize_digits.py", "--infer")  # the saved model, in a new process
    assert re.search(r"^inferred (.*)$", again.stdout, re.MULTILINE).group(1) == labels


@pytest.mark.parametrize("words", [(), ("--sparse",)])
def test_word2vec(tmp_path, words):
    done = run(tmp_path, "word2vec.py", "--steps", 60, "--passes", 2, "--every", 1, *words)
    assert_falls(losses(done))
    assert "the model says" in done.stdout


def test_recommender_system(tmp_path):
    done = run(tmp_path, "recommender_system.py", "--steps", 40, "--every", 1)
    assert_falls(losses(done))
    assert "inferred" in done.stdout


def read_png(path):
    """Width, height and pixels of a PNG file as plot.py writes it, checksums checked."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, {}
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0] == zlib.crc32(kind + body)
        chunks[kind] = body
        at += 12 + size
    width, height, bits, color = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert (bits, color) == (8, 2) and b"IEND" in chunks
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + 3 * width)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, 3)


@pytest.mark.parametrize("words", [("--samples", 30000), ("--model", "deepfm", "--servers", 1, "--workers", 3, "--samples", 24000)])
def test_demo(tmp_path, words):
    """A whole job in one command: falling loss, a plot, nothing left over."""
    done = run(tmp_path, "demo.py", *words, "--batch_size", 250, "--out", "plot.png", TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\r" not in done.stdout and "\033" not in done.stdout and not done.stderr
    found = re.search(r"Loss ([\d.]+) -> ([\d.]+) over [\d,]+ samples, ([\d,]+) samples/s", done.stdout)
    assert float(found.group(2)) < float(found.group(1)) and found.group(3) != "0"
    assert 0.45 < float(re.search(r"^AUC ([\d.]+) over [\d,]+ samples that nobody trained on", done.stdout, re.MULTILINE)[1]) < 0.9
    assert re.search(r"Peak memory: server 0 [\d,]+ MB, .*worker 1 [\d,]+ MB", done.stdout)
    pixels = read_png(tmp_path / "plot.png")
    assert (pixels != 255).any(axis=2).mean() > 0.01  # something is drawn
    assert not list(tmp_path.glob("paddle-demo-*"))  # its logs are gone


@pytest.mark.parametrize("no_color", ["", "1"])
def test_demo_on_a_terminal(tmp_path, no_color):
    """On a terminal there is a table that is rewritten; with NO_COLOR there are plain lines."""
    try:
        ours, theirs = pty.openpty()
    except OSError as error:
        pytest.skip(f"this system has no pseudo terminals: {error}")
    env = os.environ | {"NO_COLOR": no_color, "COLUMNS": "120"}
    command = [sys.executable, str(EXAMPLES / "demo.py"), "--samples", "20000", "--batch_size", "250"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=theirs, stderr=subprocess.PIPE, env=env)
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 4096):
            shown += chunk
    except OSError:
        pass  # the other end is closed
    finally:
        os.close(ours)
    assert process.wait(60) == 0, process.stderr.read()
    process.stderr.close()
    text = shown.decode()
    assert "samples/s" in text and "Loss " in text
    assert ("\033[6A" in text) == (not no_color)  # back up over the head of the table and four rows
    assert ("\033[32mserving" in text) == (not no_color)
    assert all(name in text for name in ("server 0", "server 1", "worker 0", "worker 1"))


class RunningDemo:
    """The demo in the middle of its work; `with` waits for the first steps and ends it."""

    def __init__(self, tmp_path):
        command = [sys.executable, str(EXAMPLES / "demo.py"), "--samples", "20000", "--passes", "1000", "--batch_size", "250"]
        self.process = subprocess.Popen(command, cwd=tmp_path, text=True, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env=os.environ | {"TMPDIR": str(tmp_path)})

    def __enter__(self):
        line = ""
        while " samples/s " not in line:
            line = self.process.stdout.readline()
            assert line, self.process.stderr.read()
        self.members = find_members(*children(self.process.pid))
        assert sorted(self.members) == ["server 0", "server 1", "worker 0", "worker 1"]
        return self

    def __exit__(self, *unused):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.communicate()

    def end(self):
        """Exit status, both outputs, and which of its processes are still there."""
        out, errors = self.process.communicate(timeout=120)
        left = [pid for pid in self.members.values() if Path(f"/proc/{pid}").exists()]
        return self.process.returncode, out, errors, left


def test_demo_ends_with_an_interrupt(tmp_path):
    with RunningDemo(tmp_path) as demo:
        demo.process.send_signal(signal.SIGINT)
        status, out, errors, left = demo.end()
    assert (status, left, errors) == (130, [], "") and out.endswith("Stopped.\n")
    assert not list(tmp_path.glob("paddle-demo-*"))


@pytest.mark.parametrize("name", ["server 1", "worker 0"])
def test_demo_names_who_failed(tmp_path, name):
    with RunningDemo(tmp_path) as demo:
        os.kill(demo.members[name], signal.SIGKILL)
        status, _, errors, left = demo.end()
    assert (status, left) == (128 + signal.SIGKILL, [])
    assert f"launch: {name} was killed by SIGKILL" in errors and f"{name} failed first" in errors
    logs = Path(re.search(r"^The logs are in (.*)\.$", errors, re.MULTILINE)[1])
    assert (logs / "workerlog.1").exists()


class TestPlot:
    """examples/plot.py"""

    @pytest.fixture
    def plot(self, monkeypatch):
        monkeypatch.syspath_prepend(str(EXAMPLES))
        import plot

        return plot

    def test_curve_is_where_it_belongs(self, plot, tmp_path):
        plot.save(str(tmp_path / "a.png"), [plot.Curve([0, 100], [1.0, 1.0], color=(255, 0, 0), width=4)],
                  height=200, width=300)
        pixels = read_png(tmp_path / "a.png")
        assert pixels.shape == (200, 300, 3)
        rows, columns = np.nonzero((pixels == (255, 0, 0)).all(axis=2))
        assert np.ptp(rows) <= 4  # a level line
        assert np.ptp(columns) > 150

    @pytest.mark.parametrize("y", [[], [1.0], [2.0, 2.0], [float("nan"), 1.0, 2.0], [1e-9, 1e9], [-5.0, 5.0]])
    def test_odd_curves(self, plot, tmp_path, y):
        plot.save(str(tmp_path / "a.png"), [plot.Curve(range(len(y)), y, "odd ~ name")], title="t")
        assert read_png(tmp_path / "a.png").shape == (540, 960, 3)

    def test_ticks(self, plot):
        assert plot.nice_ticks(0, 1, 5) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
        assert plot.nice_ticks(0, 937, 8) == pytest.approx([0, 200, 400, 600, 800])

    def test_every_letter_has_dots(self, plot):
        for letter, rows in plot.FONT.items():
            assert len(bytes.fromhex(rows)) == 7
            assert plot.text_dots(letter).any() == (letter != " ")

    def test_smooth_starts_at_the_first_value(self, plot):
        assert plot.smooth([3.0, 3.0, 3.0]) == pytest.approx([3.0, 3.0, 3.0])


def test_bench_runs(tmp_path):
    """The smallest measurement: our own library only, one short round."""
    env = os.environ | {"PADDLE185_PYTHON": "", "TORCH_PYTHON": ""}
    figures = tmp_path / "figures.json"
    words = ["--quick", "--only", "fit_a_line", "--rounds", "1", "--seconds", "0.05", "--threads", "1"]
    done = subprocess.run([sys.executable, str(ROOT / "bench" / "run.py"), *words, "--json", str(figures)],
                          capture_output=True, text=True, timeout=300, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| fit_a_line, one run, batch 20 | 1" in done.stdout
    assert '"steps_per_s"' in figures.read_text()


def test_bench_of_nodes_counts(monkeypatch):
    """A job of light workers is measured, and the formula finds the costs that made its jobs."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    nodes = importlib.import_module("nodes")
    seen = nodes.measure(workers=2, servers=1, steps=3)
    assert 26000 * 40 < seen["bytes_in"] < 26000 * 60 + 4e6  # rows of 10 numbers and their ids, and the dense parameters
    assert 26000 * 40 < seen["bytes_out"] < 26000 * 50 + 4e6
    assert 0 < seen["server"] < 1 and 0 <= seen["worker"] < 5
    made = [0.002, 3e-5, 0.001]
    rows = [nodes.server_row(*pair) for pair in nodes.FITTED]
    np.testing.assert_allclose(nodes.fit(rows, [float(np.dot(row, made)) for row in rows]), made, rtol=1e-6)


def test_bench_of_curves_runs(tmp_path):
    """Programs of one and of two layers."""
    figures = tmp_path / "figures.json"
    words = ["--layers", "1,2", "--width", "2", "--rounds", "1", "--json", str(figures)]
    done = subprocess.run([sys.executable, str(ROOT / "bench" / "curves.py"), *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    for work in ("layers", "append_backward", "first run", "a step", "transpile", "get_pserver_program"):
        assert f"| {work} " in done.stdout
    assert [row["layers"] for row in json.loads(figures.read_text())] == [1, 2]
