"""Settings of the network, and flags, that make no sense end a process at once, with the setting's name and what to write."""

import pytest
from cluster import Job

SMALL = ["--model", "fit_a_line", "--optimizer", "momentum", "--steps", "3"]
WRONG = {  # setting -> (who has it, value, what is said)
    "no way": ("trainer", {"PADDLE_PS_MAP": "nonsense"},
               "PADDLE_PS_MAP has the entry 'nonsense': write each as HOST:PORT=HOST:PORT"),
    "half a way": ("trainer", {"PADDLE_PS_MAP": "127.0.0.1:1=127.0.0.1:2,127.0.0.1:3"},
                   "PADDLE_PS_MAP has the entry '127.0.0.1:3'"),
    "no port": ("trainer", {"PADDLE_PS_MAP": "127.0.0.1:1=gateway"}, "PADDLE_PS_MAP has the entry '127.0.0.1:1=gateway'"),
    "small ring": ("server", {"PADDLE_PS_RING": "1000"}, "PADDLE_PS_RING is '1000'"),
    "odd ring": ("server", {"PADDLE_PS_RING": "3M"}, "from 64K to 64M, a power of two"),
    "no address": ("server", {"PADDLE_PS_BIND": "no-such.invalid"},
                   "(PADDLE_PS_BIND is no-such.invalid): the name 'no-such.invalid' is not known"),
    "no file": ("trainer", {"PADDLE_PS_SECRET_FILE": "/nonexistent"}, "PADDLE_PS_SECRET_FILE=/nonexistent cannot be read"),
    "two secrets": ("trainer", {"PADDLE_PS_SECRET": "0123456789abcdef", "PADDLE_PS_SECRET_FILE": "/etc/passwd"},
                    "to different secrets: unset one"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_setting_that_makes_no_sense_is_told_at_once(what):
    who, env, said = WRONG[what]
    with Job(1, 1) as job:
        server = job.start("server", 0, *SMALL, env=env if who == "server" else {})
        if who == "server":
            assert server.end(60) != 0 and said in server.output(), server.output()
            return
        server.wait_for("Server listening on")
        trainer = job.start("trainer", 0, *SMALL, env=env)
        assert trainer.end(60) != 0  # FLAGS_rpc_deadline is 180 s
        assert said in trainer.output(), trainer.output()


@pytest.mark.parametrize("value", ["-1", "4294967297"])
def test_a_flag_out_of_its_range_ends_a_job_at_its_start(value):
    """4294967297 in 32 bits is 1: the job would run, and end at the first cut of a connection."""
    with Job(1, 2, env={"FLAGS_ps_reconnect": value}) as job:
        job.start_all(*SMALL)
        for p in job.processes:
            assert p.end(60) == 1 and "Server listening on" not in p.output(), p.output()
            assert f"FLAGS_ps_reconnect cannot be '{value}': give a whole number from 0 to 2147483647 (" in p.output(), p.output()


def test_a_way_to_nowhere_in_the_job():
    """It may be for another job, so that this one goes on; a typo is told with what was meant."""
    with Job(1, 1) as job:
        wrong = job.endpoints[0].replace("127.0.0.1", "127.0.0.2")
        job.env["PADDLE_PS_MAP"] = f"{wrong}=127.0.0.1:1"
        job.start_all(*SMALL)
        job.end(60)
        for p in job.processes:
            assert (f"PADDLE_PS_MAP has a way to '{wrong}', which is not in pservers: nobody takes it. Did you mean "
                    f"'{job.endpoints[0]}'?") in p.output(), p.output()


def test_the_same_secret_twice_is_one(tmp_path):
    (tmp_path / "secret").write_text("0123456789abcdef\n")
    (tmp_path / "secret").chmod(0o600)
    with Job(1, 1, env={"PADDLE_PS_SECRET": "0123456789abcdef", "PADDLE_PS_SECRET_FILE": str(tmp_path / "secret"),
                        "PADDLE_PS_RING": "512K"}) as job:
        job.start_all(*SMALL)
        job.end(60)


@pytest.mark.parametrize("servers", [1, 2])
def test_a_job_with_the_largest_values_runs(servers, tmp_path):
    """Nothing is computed from them that does not fit: 2147483647 ms is what people write for `for ever`."""
    names = ("rpc_deadline", "rpc_retry_times", "ps_reconnect", "ps_notice", "ps_wait_trainers",
             "ps_snapshot_seconds", "ps_snapshot_steps", "ps_log_mb", "ps_keep")
    env = {f"FLAGS_{name}": "2147483647" for name in names}
    env |= {"FLAGS_ps_loops": "64", "FLAGS_ps_spin": "100000", "FLAGS_ps_dead_after": "30000",
            "FLAGS_ps_dir": str(tmp_path), "FLAGS_ps_log": "write", "PADDLE_PS_TRANSPORT": "tcp"}
    with Job(servers, 2, env=env) as job:
        job.start_all(*SMALL)
        job.end(120)


def test_a_folder_that_cannot_be_is_told_with_its_flag(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    for path in (file, "/proc/nope"):
        with Job(1, 1, env={"FLAGS_ps_dir": str(path)}) as job:
            server = job.start("server", 0)
            assert server.end(20) == 1
            assert f"FLAGS_ps_dir is '{path}': cannot " in server.output().splitlines()[-1], server.output()
