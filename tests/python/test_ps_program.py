"""A trainer whose Program is not the server's is refused at once and for good, and told the first difference."""

import pytest
from cluster import Job

SERVER = ["--rows", "8", "--cols", "16"]
DECAY = "regularizer=fluid.regularizer.L2Decay(0.5)"
OPTIONS = {  # of the server, where it has some
    "number of the optimizer": ["--optimizer", "Momentum(0.1, 0.9)"],
    "whose decay": ["--attr", "w0", DECAY],
}

DIFFERENT = {
    "shape, as many elements": (["--rows", "16", "--cols", "8"], "parameter w0 is float32 [16, 8]", "float32 [8, 16]"),
    "shape": (["--rows", "8", "--cols", "17"], "parameter w0 is float32 [8, 17]", "float32 [8, 16]"),
    "fewer parameters": (["--params", "1"], "the server has parameter w1", "which the trainer has not"),
    "more parameters": (["--params", "3"], "the trainer has parameter w2", "which the server has not"),
    "dtype": (["--dtype", "float64"], "parameter w0 is float64 [8, 16]", "float32 [8, 16]"),
    "optimizer": (["--optimizer", "Adagrad(0.1)"], "the optimizer of 'w0' is adagrad at the trainer", ", and sgd here. Give both"),
    "number of the optimizer": (["--optimizer", "Momentum(0.1, 0.8)"], "the optimizer of 'w0' is momentum(mu=0.8",
                                ") at the trainer, and momentum(mu=0.9"),
    "decay": (["--decay", "0.5"], "the trainer has update op 0", "which the server has not"),
    "learning rate": (["--optimizer", "SGD(0.5)"], "input of the update of w0 is", "LearningRate 0.5 at the trainer, and"),
    "whose decay": (["--attr", "w1", DECAY], "X=w1) at the trainer", "X=w0) here"),
    "mode": (["--async"], "mode is async", "sync here"),
    "another start": (["--async", "--no-startup"], "mode is async", "sync here"),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_another_program_is_refused(what):
    options, theirs, ours = DIFFERENT[what]
    server = [*SERVER, *OPTIONS.get(what, [])]
    with Job(2, 1, "shapes.py") as job:
        servers = [job.start("server", i, *server) for i in range(2)]
        for each in servers:
            each.wait_for("Server listening on")
        trainer = job.start("trainer", 0, *server, *options)
        assert trainer.end(60) != 0  # FLAGS_rpc_deadline is 180 s
        said = trainer.output()
        assert "the trainer's Program is not this server's" in said and theirs in said and ours in said, said
        assert "\nloss " not in said and "[op " not in said
        assert any("refused: the trainer's Program is not this server's" in each.output() for each in servers)
        # The right one is served as if nothing had been.
        assert job.start("trainer", 0, *server).end(60) == 0
        assert all(each.end(20) == 0 for each in servers)


def test_who_waits_for_a_refused_trainer_hears_of_it():
    env = {"FLAGS_ps_notice": "300", "FLAGS_rpc_deadline": "20000"}
    with Job(1, 2, "shapes.py", env=env) as job:
        server = job.start("server", 0, *SERVER)
        waits = job.start("trainer", 0, *SERVER)
        assert job.start("trainer", 1, *SERVER, "--rows", "9").end(60) == 1
        said = ("for trainer 1 (has not connected yet), but a process came for it and was refused: the trainer's Program is not "
                "this server's")
        for each in (server, waits):
            each.wait_for(said)
        assert job.start("trainer", 1, *SERVER).end(60) == 0
        assert waits.end(20) == 0 and server.end(20) == 0


@pytest.mark.parametrize("policy", ["fail", "shrink"])
def test_a_second_program_of_the_same_trainer_is_refused_and_all_hear_why(policy):
    """It has failed, and is not gone without a word."""
    with Job(2, 2, "two_models.py", env={"FLAGS_ps_on_trainer_loss": policy}) as job:
        job.start_all()
        ends = [each.end(60) for each in job.processes]
        assert ends == [1] * 4
        for each in job.processes:
            said = each.output()
            assert "the trainer's Program is not this server's" in said and "a server serves one Program" in said, said
            assert "without a word" not in said
        trained = [each.output().count("a model is trained") for each in job.processes[2:]]
        assert trained == [1, 1] or (policy == "fail" and sorted(trained) == [0, 1]), trained  # it ends the other in its last step


def test_servers_hear_why_from_each_other(tmp_path):
    """One of them has nothing to update, and hears nothing of the trainers themselves: they are stuck where they failed."""
    with Job(2, 2, "two_models.py", env={"FLAGS_ps_on_trainer_loss": "shrink"}) as job:
        job.start_all("--linger", str(tmp_path / "end"))
        assert [each.end(60) for each in job.processes[:2]] == [1] * 2
        assert any("has nothing to update" in each.output() for each in job.processes[:2])
        for each in job.processes[:2]:
            last = each.output().splitlines()[-1]
            assert "no trainer of this job has done its work" in last and "a server serves one Program" in last, each.output()
        (tmp_path / "end").touch()
        assert [each.end(60) for each in job.processes[2:]] == [1] * 2


@pytest.mark.parametrize("script, options", [("shapes.py", SERVER), ("counted.py", [])], ids=["parameters", "a table"])
def test_another_order_of_servers_is_refused(script, options):
    """Nothing is read from, or pushed to, the wrong one."""
    with Job(2, 1, script) as job:
        servers = [job.start("server", i, *options) for i in range(2)]
        for each in servers:
            each.wait_for("Server listening on")
        job.endpoints.reverse()
        trainer = job.start("trainer", 0, *options)
        assert trainer.end(60) != 0
        said = trainer.output()
        assert "the place of this server in pservers is" in said and "of 2 at the trainer, and" in said, said
        job.endpoints.reverse()
        assert job.start("trainer", 0, *options).end(60) == 0
        assert all(each.end(20) == 0 for each in servers)


def test_another_number_of_trainers_is_refused():
    with Job(1, 2, "shapes.py") as job:
        server = job.start("server", 0, *SERVER)
        server.wait_for("Server listening on")
        job.trainers = 3
        trainer = job.start("trainer", 0, *SERVER)
        assert trainer.end(60) != 0
        assert "3" in trainer.output() and "trainers" in trainer.output()


@pytest.mark.parametrize("policies", [("shrink", "fail"), ("fail", "shrink"), ("wait", "shrink")], ids="-".join)
def test_servers_that_differ_in_what_a_lost_trainer_means_are_refused(policies):
    with Job(2, 2, "shapes.py") as job:
        servers = [job.start("server", i, *SERVER, env={"FLAGS_ps_on_trainer_loss": policy}) for i, policy in enumerate(policies)]
        for each in servers:
            each.wait_for("Server listening on")
        trainer = job.start("trainer", 0, *SERVER)  # the first to come finds out
        assert trainer.end(60) != 0  # FLAGS_rpc_deadline is 180 s
        said = trainer.output()
        assert "FLAGS_ps_on_trainer_loss is '" in said and all(f"'{policy}'" in said for policy in policies), said
        assert "give all servers of a job the same" in said
