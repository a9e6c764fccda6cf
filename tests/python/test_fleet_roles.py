"""Who a process is: every role maker, with environments that are right and wrong."""

import pytest

import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.base.fleet_base import Fleet, Mode
from paddle.fluid.incubate.fleet.base.role_mpi import hosts_of_slurm, tasks_of_slurm
from paddle.fluid.incubate.fleet.parameter_server.pslib import PSLib

SERVERS = "10.0.0.1:36000,10.0.0.2:36000"
JOB = {"PADDLE_PSERVERS_IP_PORT_LIST": SERVERS, "PADDLE_TRAINERS_NUM": "2"}
WORKER = {**JOB, "TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": "1"}
SERVER = {**JOB, "TRAINING_ROLE": "PSERVER", "POD_IP": "10.0.0.2", "PADDLE_PORT": "36000"}
GENERAL = {"PADDLE_PSERVERS_IP_PORT_LIST": SERVERS, "PADDLE_TRAINER_ENDPOINTS": "10.0.0.1:1,10.0.0.2:1,10.0.0.3:1",
           "TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": "2"}
MPI = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "PADDLE_PSERVERS_IP_PORT_LIST": SERVERS}
SLURM = {"SLURM_PROCID": "4", "SLURM_NTASKS": "6", "SLURM_JOB_NODELIST": "n[08-09],big", "SLURM_TASKS_PER_NODE": "2(x3)",
         "SLURM_JOB_ID": "77"}
OURS = ("PADDLE_", "TRAINING_ROLE", "POD_IP", "OMPI_", "PMI", "MPI_", "SLURM_", "SYS_JOB_ID")


@pytest.fixture
def environment(monkeypatch):
    """Sets these variables, and no others that role makers read."""
    import os

    def put(values):
        for name in [name for name in os.environ if name.startswith(OURS)]:
            monkeypatch.delenv(name)
        for name, value in values.items():
            monkeypatch.setenv(name, value)

    return put


def facts(role):
    role.generate_role()
    return (role.is_worker(), role.is_server(), role.is_first_worker(), role.worker_index(), role.server_index(), role.worker_num(),
            len(role.get_pserver_endpoints()))


@pytest.mark.parametrize("maker, env, wanted", [
    (role_maker.PaddleCloudRoleMaker, WORKER, (True, False, False, 1, 1, 2, 2)),
    (role_maker.PaddleCloudRoleMaker, {**WORKER, "PADDLE_TRAINER_ID": "0"}, (True, False, True, 0, 0, 2, 2)),
    (role_maker.PaddleCloudRoleMaker, SERVER, (False, True, False, 1, 1, 2, 2)),
    (role_maker.PaddleCloudRoleMaker, {**SERVER, "PADDLE_PSERVERS_IP_PORT_LIST": " 10.0.0.2:36000 , a:1 "},
     (False, True, False, 0, 0, 2, 2)),
    (role_maker.GeneralRoleMaker, GENERAL, (True, False, False, 2, 2, 3, 2)),
    (role_maker.GeneralRoleMaker, {**GENERAL, "TRAINING_ROLE": "PSERVER", "PADDLE_PSERVER_ID": "1"},
     (False, True, False, 1, 1, 3, 2)),
    (role_maker.GeneralRoleMaker, {**GENERAL, **SERVER}, (False, True, False, 1, 1, 3, 2)),
    (role_maker.MPISymetricRoleMaker, MPI, (True, False, False, 1, 1, 2, 2)),
    (role_maker.MPISymetricRoleMaker, {**MPI, "OMPI_COMM_WORLD_RANK": "0"}, (False, True, False, 0, 0, 2, 2)),
    (role_maker.MPISymetricRoleMaker, {"PMI_RANK": "1", "PMI_SIZE": "2", "PADDLE_PSERVERS_IP_PORT_LIST": "a:1"},
     (True, False, True, 0, 0, 1, 1)),
    (role_maker.MPISymetricRoleMaker, SLURM, (False, True, False, 2, 2, 3, 3)),
])
def test_right(environment, maker, env, wanted):
    environment(env)
    assert facts(maker()) == wanted


def test_asked_without_generate_role(environment):
    environment(WORKER)
    role = role_maker.PaddleCloudRoleMaker()
    assert role.worker_index() == 1 and role.get_pserver_endpoints() == SERVERS.split(",")
    assert "current_id: 1" in repr(role) and role.get_trainer_endpoints() == []
    environment(GENERAL)
    role = role_maker.GeneralRoleMaker(path="./somewhere", hdfs_name="", init_timeout_seconds=3600)
    assert role.get_local_endpoint() == "10.0.0.3:1" and (role._get_rank(), role._get_size(), role.server_num()) == (2, 5, 2)


def test_collective(environment):
    environment({"PADDLE_TRAINER_ENDPOINTS": "a:1,b:1", "PADDLE_TRAINER_ID": "1", "PADDLE_CURRENT_ENDPOINT": "b:1"})
    role = role_maker.PaddleCloudRoleMaker(is_collective=True)
    assert facts(role) == (True, False, False, 1, 1, 2, 0) and role.get_trainer_endpoints() == ["a:1", "b:1"]


CLOUD = "something wrong with PaddleCloud, please check environment: "


@pytest.mark.parametrize("maker, env, said, example", [
    (role_maker.PaddleCloudRoleMaker, {}, [
        CLOUD, "missing: PADDLE_PSERVERS_IP_PORT_LIST, all servers", "missing: PADDLE_TRAINERS_NUM, the number of workers",
        "missing: TRAINING_ROLE, TRAINER or PSERVER", "missing: PADDLE_TRAINER_ID, the number of this worker",
    ], ["export PADDLE_PSERVERS_IP_PORT_LIST=10.0.0.1:36000,10.0.0.2:36000", "export TRAINING_ROLE=TRAINER"]),
    (role_maker.PaddleCloudRoleMaker, {**JOB, "TRAINING_ROLE": "TRAINER"}, [
        "set:     PADDLE_PSERVERS_IP_PORT_LIST=10.0.0.1:36000,10.0.0.2:36000, PADDLE_TRAINERS_NUM=2, TRAINING_ROLE=TRAINER",
        "missing: PADDLE_TRAINER_ID"], ["export PADDLE_TRAINERS_NUM=2", "export PADDLE_TRAINER_ID=0"]),
    (role_maker.PaddleCloudRoleMaker, {**WORKER, "PADDLE_TRAINER_ID": " "}, ["missing: PADDLE_TRAINER_ID"], []),
    (role_maker.PaddleCloudRoleMaker, {**WORKER, "PADDLE_PSERVERS_IP_PORT_LIST": ""},
     ["missing: PADDLE_PSERVERS_IP_PORT_LIST, all servers", "(it is empty: a job with Fleet has servers, --server_num=1)"], []),
    (role_maker.PaddleCloudRoleMaker, {**WORKER, "PADDLE_TRAINER_ID": "2"},
     ["PADDLE_TRAINER_ID='2': there are 2 workers, so it must be from 0 to 1"], []),
    (role_maker.PaddleCloudRoleMaker, {**WORKER, "PADDLE_TRAINER_ID": "-1", "PADDLE_TRAINERS_NUM": "two"},
     ["PADDLE_TRAINER_ID='-1': it must be a whole number from 0 on",
      "PADDLE_TRAINERS_NUM='two': it must be a whole number from 1 on"],
     ["export PADDLE_TRAINERS_NUM=2"]),
    (role_maker.PaddleCloudRoleMaker, {**WORKER, "PADDLE_TRAINERS_NUM": "0"}, ["PADDLE_TRAINERS_NUM='0'"], []),
    (role_maker.PaddleCloudRoleMaker, {**SERVER, "TRAINING_ROLE": "pserver"},
     ["TRAINING_ROLE='pserver': it must be PSERVER or TRAINER. Did you mean 'PSERVER'?"],
     ["export TRAINING_ROLE=PSERVER", "export POD_IP=10.0.0.2"]),
    (role_maker.PaddleCloudRoleMaker, {**WORKER, "TRAINING_ROLE": "MASTER"},
     ["TRAINING_ROLE='MASTER': it must be PSERVER or TRAINER"], []),
    (role_maker.PaddleCloudRoleMaker, {**SERVER, "POD_IP": "10.0.0.3"},
     ["10.0.0.3:36000 (POD_IP:PADDLE_PORT) is not among the servers 10.0.0.1:36000, 10.0.0.2:36000"], ["export POD_IP=10.0.0.1"]),
    (role_maker.PaddleCloudRoleMaker, {**SERVER, "POD_IP": "127.0.0.1", "PADDLE_PORT": "36002",
                                       "PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.1:36000,127.0.0.1:36001"},
     ["127.0.0.1:36002 (POD_IP:PADDLE_PORT) is not among",
      "PADDLE_PORT='36002': with POD_IP=127.0.0.1 it names no server of the list"],
     ["export POD_IP=127.0.0.1", "export PADDLE_PORT=36000"]),
    (role_maker.PaddleCloudRoleMaker, {**SERVER, "POD_IP": "b", "PADDLE_PORT": "2", "PADDLE_PSERVERS_IP_PORT_LIST": "a:1,b:7"},
     ["b:2 (POD_IP:PADDLE_PORT) is not among the servers a:1, b:7"], ["export POD_IP=b", "export PADDLE_PORT=7"]),
    (role_maker.PaddleCloudRoleMaker, {**SERVER, "POD_IP": "", "PADDLE_PORT": "7", "PADDLE_PSERVERS_IP_PORT_LIST": "a:1,b:7"},
     ["missing: POD_IP"], ["export POD_IP=b", "export PADDLE_PORT=7"]),
    (role_maker.PaddleCloudRoleMaker, {**JOB, "TRAINING_ROLE": "PSERVER"}, ["missing: POD_IP", "missing: PADDLE_PORT"],
     ["export POD_IP=10.0.0.1", "export PADDLE_PORT=36000"]),
    (role_maker.PaddleCloudRoleMaker, {**WORKER, "PADDLE_PSERVERS_IP_PORT_LIST": "10.0.0.1"},
     ["PADDLE_PSERVERS_IP_PORT_LIST='10.0.0.1': '10.0.0.1' is not HOST:PORT"], []),
    (role_maker.PaddleCloudRoleMaker, {**WORKER, "PADDLE_PSERVERS_IP_PORT_LIST": "a:1,a:1"}, ["it names 'a:1' twice"], []),
    (role_maker.PaddleCloudRoleMaker, {**WORKER, "PADDLE_PSERVERS_IP_PORT_LIST": "a:1,"}, ["'' is not HOST:PORT"], []),
    (lambda: role_maker.PaddleCloudRoleMaker(is_collective=True), {"PADDLE_TRAINER_ID": "0"},
     [CLOUD, "missing: PADDLE_TRAINER_ENDPOINTS"], ["export PADDLE_TRAINER_ENDPOINTS=10.0.0.1:36001,10.0.0.2:36001"]),
    (lambda: role_maker.PaddleCloudRoleMaker(is_collective=True), {"PADDLE_TRAINER_ID": "2", "PADDLE_TRAINER_ENDPOINTS": "a:1,b:1"},
     ["there are 2 workers, so it must be from 0 to 1"], []),
    (role_maker.GeneralRoleMaker, {**GENERAL, "PADDLE_TRAINER_ENDPOINTS": "", "PADDLE_TRAINER_ID": "x"},
     ["something wrong with the environment of GeneralRoleMaker: ", "missing: PADDLE_TRAINER_ENDPOINTS", "PADDLE_TRAINER_ID='x'"],
     []),
    (role_maker.GeneralRoleMaker, {**GENERAL, "TRAINING_ROLE": "PSERVER", "PADDLE_PSERVER_ID": "2"},
     ["PADDLE_PSERVER_ID='2': there are 2 servers, so it must be from 0 to 1"], []),
    (role_maker.MPISymetricRoleMaker, {}, ["something wrong with MPI, please check environment: ",
     "missing: OMPI_COMM_WORLD_RANK, the rank; or PMI_RANK, or SLURM_PROCID: was this process started by mpirun or srun?"],
     ["export OMPI_COMM_WORLD_SIZE=4"]),
    (role_maker.MPISymetricRoleMaker, {**MPI, "OMPI_COMM_WORLD_SIZE": "5"}, ["OMPI_COMM_WORLD_SIZE='5': it must be even"], []),
    (role_maker.MPISymetricRoleMaker, {**MPI, "OMPI_COMM_WORLD_RANK": "4"},
     ["there are 4 processes, so it must be from 0 to 3"], []),
    (role_maker.MPISymetricRoleMaker, {**MPI, "PADDLE_PSERVERS_IP_PORT_LIST": "a:1"},
     ["it has 1 servers; 4 processes have 2"], []),
    (role_maker.MPISymetricRoleMaker, {**MPI, "PADDLE_PSERVERS_IP_PORT_LIST": ""}, ["missing: PADDLE_PSERVERS_IP_PORT_LIST",
     "mpirun -x PADDLE_PSERVERS_IP_PORT_LIST hands it to all"], []),
])
def test_wrong(environment, maker, env, said, example):
    """One error with all that is wrong, and lines to copy; those that were right are in them as they are."""
    environment(env)
    with pytest.raises(ValueError) as found:
        maker().generate_role()
    text, _, copied = str(found.value).partition("\nFor example:\n")
    assert [each for each in said if each not in text] == [], text
    assert [each for each in example if f"  {each}" not in copied.splitlines()] == [], copied


def test_the_lines_to_copy_are_right(environment):
    """What a message shows for a process without variables makes a worker."""
    environment({})
    for maker in (role_maker.PaddleCloudRoleMaker, role_maker.GeneralRoleMaker, role_maker.MPISymetricRoleMaker):
        environment({})
        with pytest.raises(ValueError) as found:
            maker().generate_role()
        lines = [line.removeprefix("  export ").split("=", 1) for line in str(found.value).splitlines() if "export" in line]
        environment(dict(lines))
        maker().generate_role()


@pytest.mark.parametrize("name, shown", [("my train.py", "'my train.py'"), ("-c", "train.py")])
def test_without_any_variable_the_launcher_is_told(environment, monkeypatch, name, shown):
    monkeypatch.setattr("sys.argv", [name])
    for maker in (role_maker.PaddleCloudRoleMaker, role_maker.GeneralRoleMaker):
        environment({})
        with pytest.raises(ValueError) as found:
            maker().generate_role()
        assert str(found.value).endswith(f"paddle launch local --server_num=1 --worker_num=2 {shown}")
        environment({"TRAINING_ROLE": "TRAINER"})  # somebody has begun to set them
        with pytest.raises(ValueError) as found:
            maker().generate_role()
        assert "paddle launch" not in str(found.value)


def test_scripts_that_get_on_without_mpi(environment):
    """They catch what 1.8.5 raises there; a launcher's variables that are wrong are no ImportError."""
    fleet = PSLib()
    environment({})
    with pytest.raises(ImportError, match="was this process started by mpirun or srun"):
        fleet.init()
    for call in (lambda: fleet.distributed_optimizer(fluid.optimizer.Adam()), fleet.worker_num, fleet.is_server):
        with pytest.raises(AttributeError, match=r"use fleet\.init\(role\)") as found:
            call()
        assert isinstance(found.value, ValueError)
    environment({**MPI, "OMPI_COMM_WORLD_SIZE": "5"})
    with pytest.raises(ValueError) as found:
        fleet.init()
    assert not isinstance(found.value, ImportError)


def test_endpoints_that_follow_from_the_launcher(environment):
    environment(SLURM)
    role = role_maker.MPISymetricRoleMaker()
    hosts, ports = zip(*(each.split(":") for each in role.get_pserver_endpoints()))
    assert hosts == ("n08", "n09", "big") and len(set(ports)) == 1 and 61001 <= int(ports[0]) <= 64000
    environment({**SLURM, "PADDLE_PORT": "7000", "SLURM_TASKS_PER_NODE": "4,2", "SLURM_JOB_NODELIST": "a,b"})
    assert role_maker.MPISymetricRoleMaker().get_pserver_endpoints() == ["a:7000", "a:7001", "b:7000"]
    one_host = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}
    environment({**one_host, "PADDLE_PORT": "7000"})
    assert role_maker.MPISymetricRoleMaker().get_pserver_endpoints() == ["127.0.0.1:7000", "127.0.0.1:7001"]
    assert hosts_of_slurm("a,b[1,03-04]c[1-2],d") == ["a", "b1c1", "b1c2", "b03c1", "b03c2", "b04c1", "b04c2", "d"]
    assert tasks_of_slurm("2(x3),1") == [2, 2, 2, 1]


@pytest.mark.parametrize("arguments, kind, said", [
    ({"server_endpoints": None}, TypeError, "server_endpoints must be as string list"),
    ({"server_endpoints": []}, ValueError, "the length of server_endpoints list must be greater than 0"),
    ({"server_endpoints": [3]}, TypeError, "every element in server_endpoints list must be as string"),
    ({"server_endpoints": ["a:1", "a:1"]}, ValueError, "server_endpoints can't have duplicate elements"),
    ({"current_id": "0"}, TypeError, "current_id must be as int"),
    ({"current_id": -1}, ValueError, "current_id must be greater than or equal to 0"),
    ({"current_id": 1, "role": role_maker.Role.SERVER}, ValueError, "if role is Role.SERVER, current_id must be less than"),
    ({"worker_num": "1"}, TypeError, "worker_num must be as int"),
    ({"worker_num": 0}, ValueError, "worker_num must be greater than 0"),
    ({"role": 3}, TypeError, "role must be as Role"),
])
def test_user_defined_wrong(arguments, kind, said):
    with pytest.raises(kind, match=said):
        role_maker.UserDefinedRoleMaker(**{"worker_num": 1, "server_endpoints": ["127.0.0.1:8080"], **arguments})


def test_user_defined():
    role = role_maker.UserDefinedRoleMaker(1, role_maker.Role.SERVER, 3, ["a:1", "b:1"])
    assert facts(role) == (False, True, False, 1, 1, 3, 2)
    role = role_maker.UserDefinedCollectiveRoleMaker(1, ["a:1", "b:1"])
    assert facts(role) == (True, False, False, 1, 1, 2, 0)
    for arguments in ({"current_id": 2}, {"current_id": -1}, {"worker_endpoints": []}):
        with pytest.raises(ValueError):
            role_maker.UserDefinedCollectiveRoleMaker(**{"worker_endpoints": ["a:1"], **arguments})


def test_a_class_of_the_user(environment):
    class Mine(role_maker.RoleMakerBase):
        def generate_role(self):
            self._role, self._current_id, self._trainers_num = role_maker.Role.WORKER, 0, 1
            self._server_endpoints, self._role_is_generated = ["a:1"], True

    fleet = Fleet(Mode.TRANSPILER)
    fleet.init(Mine())
    assert fleet.is_first_worker() and fleet.server_num() == 1 and fleet.server_endpoints(to_string=True) == "a:1"
    with pytest.raises(NotImplementedError, match="Please implement this method in child class"):
        role_maker.RoleMakerBase().is_worker()


def test_workers_meet():
    """Alone: nobody has to be asked. test_fleet_meet.py has the others."""
    alone = role_maker.UserDefinedRoleMaker(0, role_maker.Role.WORKER, 1, ["a:1"])
    alone.barrier_worker()
    found = [0, 0]
    alone.all_reduce_worker([1, 2], found)
    assert found == [1, 2] and alone._worker_gather("x") == ["x"]
    with pytest.raises(ValueError, match="unknown mode: mean"):
        alone.all_reduce_worker([1], [0], "mean")
    server = role_maker.UserDefinedRoleMaker(0, role_maker.Role.SERVER, 2, ["a:1"])
    server.barrier_worker()


@pytest.mark.parametrize("count, workers, wanted", [
    (5, 2, [[0, 1, 2], [3, 4]]), (2, 3, [[0], [1], []]), (6, 3, [[0, 1], [2, 3], [4, 5]]), (0, 2, [[], []]), (3, 1, [[0, 1, 2]]),
    (7, 3, [[0, 1, 2], [3, 4], [5, 6]]),
])
def test_split_files(count, workers, wanted):
    found = []
    for number in range(workers):
        fleet = Fleet(Mode.TRANSPILER)
        fleet.init(role_maker.UserDefinedRoleMaker(number, role_maker.Role.WORKER, workers, ["a:1"]))
        found.append(fleet.split_files(list(range(count))))
    assert found == wanted
    with pytest.raises(TypeError, match="files should be a list"):
        fleet.split_files("files")


def test_before_init():
    fleet = Fleet(Mode.TRANSPILER)
    with pytest.raises(ValueError, match=r"use fleet\.init\(role\) to initialize the role"):
        fleet.worker_index()
    with pytest.raises(TypeError, match="role_maker must be an instance of RoleMakerBase"):
        fleet.init("pserver")
