"""A trainer fails and says so: it raises, ends with a status, or closes its executor on the way out."""

import signal

import numpy as np
import pytest
from cluster import Job, single, until
from test_ps_faults import LONG


@pytest.mark.parametrize("how", ["raises", "exits"])
def test_failed_trainer_comes_back(tmp_path, how):
    """Policy wait: one that raises, or ends with a status, is waited for like one that is killed; no step is done without it."""
    options = [*LONG, "--steps", "60"]
    fails_at = ["--fail-at", "20"] if how == "raises" else ["--exit-at", "20", "--exit", "sys.exit(3)"]
    found = []
    for words in ([], fails_at):
        out = tmp_path / str(len(words))
        out.mkdir()
        with Job(2, 2, env={"FLAGS_ps_on_trainer_loss": "wait", "FLAGS_ps_notice": "200"}) as job:
            servers = [job.start("server", i, *options) for i in range(2)]
            stays = job.start("trainer", 0, *options, "--out", str(out / "stays.npz"))
            last = job.start("trainer", 1, *options, *words, "--out", str(out / "last.npz"))
            if words:
                assert last.end(30) == (1 if how == "raises" else 3)
                for server in servers:
                    server.wait_for("waiting for it to come back")
                stays.wait_for("(failed, and has not come back: ")
                job.processes.remove(last)
                last.close()
                last = job.start("trainer", 1, *options, "--resume", "--out", str(out / "last.npz"))
            job.end(60)
            assert not words or "steps done: 20" in last.output(), last.output()
        found.append(dict(np.load(out / "stays.npz")))
    for name, value in found[0].items():
        np.testing.assert_array_equal(found[1][name], value, err_msg=name)


def test_failed_trainer_says_so():
    """An exception that nobody caught: the others hear its text."""
    with Job(1, 2) as job:
        server = job.start("server", 0, *LONG, "--steps", "1000000")
        stays = job.start("trainer", 0, *LONG, "--steps", "1000000")
        fails = job.start("trainer", 1, *LONG, "--fail-at", "20")
        assert fails.end(30) == 1
        assert stays.end(10) == 1 and server.end(10) == 1
        assert "trainer 1" in stays.output() and "this trainer fails on purpose" in stays.output()


def test_both_ends_of_what_a_failed_trainer_says():
    """The last line of a long Traceback in an error says most; half a character is nowhere."""
    says = "raise RuntimeError('it begins so ' + 'ä' * 1000 + ' and was wrong here')"
    with Job(1, 1) as job:
        server = job.start("server", 0, *LONG, "--steps", "1000000")
        fails = job.start("trainer", 0, *LONG, "--steps", "1000000", "--exit-at", "20", "--exit", says)
        assert fails.end(30) == 1 and server.end(10) == 1
        heard = next(line for line in server.output().splitlines() if "failed: " in line)
        assert "RuntimeError: it begins so ä" in heard and "ä ... ä" in heard and heard.count("ä and was wrong here") == 1, heard


def test_both_trainers_fail_and_come_back(tmp_path):
    """Policy wait. The second one fails when the first is back, of which one server has not heard yet: it is waited for all the
    same."""
    options = [*LONG, "--steps", "60"]
    want = single(tmp_path / "single.npz", *options)
    go = tmp_path / "go"
    waits = f"while not os.path.exists({str(go)!r}): time.sleep(0.01)\nraise RuntimeError('boom')"
    with Job(3, 2, env={"FLAGS_ps_on_trainer_loss": "wait"}) as job:
        servers = [job.start("server", i, *options) for i in range(3)]
        first = [job.start("trainer", i, *options, "--exit-at", "20",
                           "--exit", ["raise RuntimeError('boom')", waits][i]) for i in range(2)]
        assert first[0].end(30) == 1
        for server in servers:
            server.wait_for("waiting for it to come back")
        servers[2].signal(signal.SIGSTOP)
        again = job.start("trainer", 0, *options, "--resume", "--out", str(tmp_path / "again.npz"))
        until(lambda: servers[0].output().count("trainer 0 (") > 2 and f"pid {again.pid}" in servers[0].output())
        go.touch()
        assert first[1].end(30) == 1
        servers[2].signal(signal.SIGCONT)
        for server in servers:
            until(lambda: server.output().count("waiting for it to come back") == 2)
        job.start("trainer", 1, *options, "--resume")
        for process in first:
            job.processes.remove(process)
            process.close()
        job.end(60)
        assert "has been lost" not in servers[0].output(), servers[0].output()
    got = dict(np.load(tmp_path / "again.npz"))
    for name in want:
        if name != "losses":
            np.testing.assert_allclose(got[name], want[name], rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("servers", [1, 2])
def test_all_trainers_fail_and_none_comes_back(servers):
    """Policy wait: they are given up after FLAGS_ps_reconnect, long before the deadline."""
    with Job(servers, 2, env={"FLAGS_ps_on_trainer_loss": "wait", "FLAGS_ps_reconnect": "500", "FLAGS_ps_loops": "1"}) as job:
        job.start_all(*LONG, "--fail-at", "20")
        assert [p.end(20) for p in job.processes] == [1] * (servers + 2), job.processes[0].output()
        for server in job.processes[:servers]:
            assert "this trainer fails on purpose" in server.output(), server.output()


RAISES = "try:\n    raise {}\n{}\n    exe.close()"
IN_THREAD = ("def work(exe=exe, threading=threading):\n    threading.main_thread().join()\n    "
             "{}\nthreading.Thread(target=work).start(); sys.exit(0)")


@pytest.mark.parametrize("how, status, is_failed", [
    (RAISES.format("RuntimeError('boom')", "finally:"), 1, True),
    (RAISES.format("RuntimeError('boom')", "except RuntimeError:") + "\n    raise", 1, True),
    (RAISES.format("KeyboardInterrupt()", "finally:"), -2, True),
    ("import atexit; atexit.register(exe.close); raise RuntimeError('boom')", 1, True),
    ("import atexit; atexit.register(exe.close); sys.exit('boom')", 1, True),
    ("import atexit; atexit.register(exe.close); sys.exit(0)", 0, False),
    ("import weakref; weakref.finalize(args, exe.close); raise RuntimeError('boom')", 1, True),
    ("def steps(exe=exe):\n    try:\n        yield 1\n    finally:\n        exe.close()\nkept = steps(); next(kept); raise "
     "RuntimeError('boom')", 1, True),
    (RAISES.format("RuntimeError('boom')", "except RuntimeError:") + "\n    sys.exit(0)", 0, False),
    (RAISES.format("KeyError('no more')", "except KeyError:") + "\nprint('closed', flush=True); "
     "threading.Event().wait()", None, False),
    ("try:\n    sys.exit(0)\nfinally:\n    exe.close()\n    print('closed', flush=True); threading.Event().wait()", None, False),
    (RAISES.format("fluid.core.EOFException('no more')", "except fluid.core.EOFException:") + "\nprint('closed', flush=True); "
     "threading.Event().wait()", None, False),
    (RAISES.format("StopIteration", "except StopIteration:") + "\nprint('closed', flush=True); "
     "threading.Event().wait()", None, False),
    ("try:\n    raise RuntimeError('boom')\nfinally:\n    try:\n        next(iter(()))\n    except StopIteration:\n       "
     " exe.close()", 1, True),
    ("try:\n    sys.exit(0.0)\nfinally:\n    exe.close()", 1, True),
    ("try:\n    sys.exit(np.int64(0))\nfinally:\n    exe.close()", 1, True),
    ("try:\n    sys.exit(256)\nfinally:\n    exe.close()", 0, False),
    ("try:\n    raise RuntimeError('boom')\nexcept RuntimeError:\n    "
     "sys.excepthook(*sys.exc_info())\nexe.close(); sys.exit(0)", 0, False),
    (IN_THREAD.format("exe.close(); print('closed', flush=True); threading.Event().wait()"), None, False),
    (IN_THREAD.format("\n    try: sys.exit(1)\n    finally: exe.close()"), 0, False),
], ids=["finally", "raised again", "Ctrl-C", "atexit", "atexit, sys.exit", "atexit, well", "finalize",
        "generator", "caught", "caught, lives on", "sys.exit(0), lives on", "end of a reader", "end of an iterator",
        "end of an iterator in a finally", "sys.exit(0.0)", "sys.exit of numpy", "sys.exit(256)",
        "printed", "a thread outlives main", "sys.exit in a thread"])
def test_an_executor_is_closed_while_an_exception_is_on_its_way(how, status, is_failed):
    """The trainer has failed when its process ends by it. At the end of the data it has done its work, whatever comes then."""
    with Job(1, 2) as job:
        server, stays = job.start("server", 0, *LONG), job.start("trainer", 0, *LONG)
        goes = job.start("trainer", 1, *LONG, "--exit-at", "20", "--exit", f"import threading\n{how}")
        if status is not None:
            assert goes.end(30) == status, goes.output()
        else:
            goes.wait_for("closed")
        assert [stays.end(30), server.end(30)] == [int(is_failed)] * 2, server.output()
        whys = ("boom", "KeyboardInterrupt", "its process ended with status 1")
        assert ("trainer 1" in stays.output() and any(why in stays.output() for why in whys)) == is_failed, stays.output()


@pytest.mark.parametrize("how, status", [("sys.exit(3)", 3), ("sys.exit('no data')", 1),
                                         ("raise SystemExit(2)", 2), ("exit(1)", 1)])
def test_trainer_that_exits_with_a_status_has_failed(how, status):
    """It is not done: the others do not train on as if nothing had been."""
    with Job(1, 2) as job:
        server = job.start("server", 0, *LONG, "--steps", "1000000")
        stays = job.start("trainer", 0, *LONG, "--steps", "1000000")
        fails = job.start("trainer", 1, *LONG, "--exit-at", "20", "--exit", how)
        assert fails.end(30) == status
        assert stays.end(10) == 1 and server.end(10) == 1
        for p in (stays, server):
            assert "trainer 1 (" in p.output() and f"failed: its process ended with status {status}" in p.output(), p.output()
