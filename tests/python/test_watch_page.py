"""The page of a job in a real browser: Debian's chromium (packages-browser.apt, `make browser`), headless."""

from __future__ import annotations

import html
import os
import re
import shutil
import signal
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from cluster import Job, until
from test_ps_watch import FOREVER, address, numbers, status
from test_watch_launcher import has_curves, start

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed: make browser")


class Page(HTMLParser):
    """What a visitor sees: by id the texts of its elements, tables as rows of cells, curves with their points."""

    def __init__(self, text: str):
        super().__init__()
        self.texts: dict[str, str] = {}
        self.tables: dict[str, list[list[str]]] = {}
        self.curves: dict[str, list[int]] = {}
        self.names: set[str] = set()
        self.where, self.curve, self.skips = [], "", 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.names.add(tag)
        if tag == "section" or given.get("id"):
            self.where.append(given.get("id", ""))
        if tag in ("script", "style"):
            self.skips += 1
        elif tag == "tr":
            self.tables.setdefault(self.where[-1], []).append([])
        elif tag in ("td", "th"):
            self.tables[self.where[-1]][-1].append("")
        elif tag == "svg":
            self.curve = given["aria-label"]
        elif tag == "polyline":
            self.curves.setdefault(self.curve, []).append(len(given["points"].split()))

    def handle_endtag(self, tag):
        if tag in ("script", "style"):
            self.skips -= 1

    def handle_data(self, data):
        if self.skips or not self.where:
            return
        self.texts[self.where[-1]] = self.texts.get(self.where[-1], "") + data
        rows = self.tables.get(self.where[-1])
        if rows and rows[-1]:
            rows[-1][-1] += data.strip()

    def rows(self, section: str) -> list[dict[str, str]]:
        head, *rows = self.tables.get(section, [[]])
        return [dict(zip(head, row)) for row in rows]


def visit(at: tuple[str, int], profile: Path) -> Page:
    """The page after some of its looks at the job; virtual time passes while the network is not waited for."""
    command = [CHROMIUM, "--headless", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
               f"--user-data-dir={profile}", "--virtual-time-budget=4000", "--dump-dom", f"http://{at[0]}:{at[1]}/"]
    if os.geteuid() == 0:
        command.append("--no-sandbox")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True) as browser:
        try:
            said, _ = browser.communicate(timeout=120)
        finally:
            try:
                os.killpg(browser.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    return Page(said)


def test_a_job_live(tmp_path):
    folder, profile = tmp_path / "job", tmp_path / "profile"
    folder.mkdir()
    job, at = start(folder)
    with job:
        until(lambda: has_curves(at), 60, job.said)
        page = visit(at, profile)
        assert "running" in page.texts["state"] and page.texts["name"] == "watched_job.py"
        first = int(re.search(r"step ([\d,]+)", page.texts["facts"])[1].replace(",", ""))
        assert first > 3
        workers = page.rows("workers")
        assert [row["worker"] for row in workers] == ["0", "1"]
        for row, pid in zip(workers, (int((folder / f"worker-{i}.starts").read_text()) for i in range(2))):
            assert row["pid"] == str(pid) and row["state"] == "running"
            assert int(row["samples"].replace(",", "")) >= 8 and 0 < float(row["loss"]) < 20 and 0.5 <= float(row["AUC"]) < 1
        assert len(page.curves["loss"]) == len(page.curves["auc"]) == 2 and min(page.curves["loss"] + page.curves["auc"]) >= 2
        assert min(page.curves["samples/s"]) >= 2
        (server,) = page.rows("servers")
        assert server["pid"] == (folder / "server-0.starts").read_text().strip() and server["state"] == "running"
        assert {row["trainer"] for row in page.rows("trainers")} == {"0", "1"}
        # A name is text, whatever it looks like.
        assert {row["name"]: row["bytes"] for row in page.rows("tables")}["<b>w</b>"] == "52 B" and "b" not in page.names
        assert "Nobody waits for anybody." in page.texts["waits"] + html.unescape("".join(page.texts.values()))

        (folder / "hold").touch()
        until(lambda: status(at)["servers"][0]["waited_s"] >= 1, 30, job.said)
        page = visit(at, profile)
        seen = "".join(page.texts.values())
        assert re.search(r"has waited [\d.]+ s in step \d+ for trainer 0", seen), seen
        late = {row["trainer"]: row["state"] for row in page.rows("trainers")}
        assert late["0"].startswith("late ") and late["1"] == "waiting"
        assert int(re.search(r"step ([\d,]+)", page.texts["facts"])[1].replace(",", "")) > first, "it is live"
        (folder / "hold").unlink()
        (folder / "go").touch()
        assert job.end(60) == 0, job.said()


def test_a_server_by_itself(tmp_path):
    with Job(1, 2, env={"FLAGS_ps_http": "0"}) as job:
        server = job.start("server", 0, "--model", "mlp")
        at = address(server)
        for i in range(2):
            job.start("trainer", i, *FOREVER)
        until(lambda: numbers(at)["ps_step"] > 2, 60)
        page = visit(at, tmp_path)
        (row,) = page.rows("servers")
        assert row["pid"] == str(server.pid) and int(row["step"].replace(",", "")) > 2 and row["server"] == job.endpoints[0]
        assert {row["name"]: row["bytes"] for row in page.rows("tables")}["fc_0.w_0"] == "200.7 KB"
        assert [row["state"] in ("in", "waiting") for row in page.rows("trainers")] == [True, True]
