"""enable_dc_asgd: a gradient that comes late counts by how far its parameters have moved since."""

from pathlib import Path

import pytest
from test_fleet_jobs import Job as FleetJob
from test_fleet_meet import said

import paddle.fluid as fluid

SCRIPT = Path(__file__).parent / "jobs" / "delayed.py"


@pytest.mark.parametrize("how, right", [({}, -1.0), ({"JOB_DECAY": "1"}, 0.5)], ids=["as it comes", "with a decay"])
def test_a_late_gradient(tmp_path, how, right):
    """Worker 1 takes w from 0 to -4 (with the decay to -3) in two steps, and each is on time. Worker 0 has w = 0 all the while:
    its gradient of 1 counts as 1 + (w - 0)."""
    both, moved = tmp_path / "both", tmp_path / "moved"
    words = (f"make:{both} wait:{moved} train:1 weight", f"wait:{both} feed:2 train:2 make:{moved}")
    with FleetJob(1, 2, SCRIPT, FLAGS_rpc_deadline="20000", **how) as job:
        job.start_servers()
        for i, each in enumerate(words):
            job.workers.append(job._start(f"worker-{i}", each.split(), {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(i)}))
        job.end()
        assert float(said(job.workers[0], "weight ")[0].split()[1]) == pytest.approx(right, abs=1e-5)


def test_sync_has_no_delay():
    fluid.layers.data("x", [1])
    loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [1]), 1))
    fluid.optimizer.SGD(0.1).minimize(loss)
    config = fluid.DistributeTranspilerConfig()
    config.enable_dc_asgd = True
    with pytest.raises(ValueError, match="set sync_mode=False in the config and in transpile"):
        fluid.DistributeTranspiler(config).transpile(0, pservers="127.0.0.1:6174", trainers=2)
    config.geo_sgd_mode = True
    with pytest.raises(ValueError, match="with geo_sgd_mode trainers send none"):
        fluid.DistributeTranspiler(config)
