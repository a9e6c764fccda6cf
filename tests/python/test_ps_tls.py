"""TLS: certificate, key and authority by environment; what goes over the wire is not to be read, and who has none is told so."""

import shutil
import subprocess

import numpy as np
import ps_peer as ps
import pytest
from cluster import Job
from fault_proxy import FaultProxy, Faults
from test_ps_faults import done_while_the_server_is_down

OPTIONS = ["--model", "mlp", "--optimizer", "momentum", "--steps", "20"]
QUIET = Faults(cut=0, half_close=0, stall=0, delay=0)
pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="the program openssl makes the certificates")


def certify(folder, name: str, names: str = "IP:127.0.0.1") -> dict[str, str]:
    """An authority, and a certificate of it."""
    folder.mkdir()

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], check=True, cwd=folder, capture_output=True)

    new = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl(*new, "-x509", "-days", "2", "-subj", f"/CN={name} authority", "-keyout", "ca.key", "-out", "ca.pem")
    openssl(*new, "-subj", f"/CN={name}", "-keyout", "key.pem", "-out", "request.pem")
    (folder / "names").write_text(f"subjectAltName={names}\n")
    openssl("x509", "-req", "-days", "2", "-in", "request.pem", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-CAcreateserial", "-extfile", "names", "-out", "cert.pem")
    files = {"CERT": "cert.pem", "KEY": "key.pem", "CA": "ca.pem"}
    return {f"PADDLE_PS_TLS_{key}": str(folder / file) for key, file in files.items()}


@pytest.fixture(scope="module")
def tls(tmp_path_factory) -> dict[str, str]:
    return certify(tmp_path_factory.mktemp("tls") / "job", "job")


@pytest.mark.parametrize("secret", ["", "with a secret as well"])
def test_a_job_over_tls(tmp_path, tls, secret):
    """The same losses, and nothing to read on the way."""
    results, seen = {}, {}
    for name, env in (("plain", {}), ("tls", tls)):
        out = tmp_path / name
        out.mkdir()
        seen[name] = []

        def meddler(name=name):
            def look(data: bytes) -> bytes:
                seen[name].append(data)
                return data

            return look

        env = {"PADDLE_PS_TRANSPORT": "tcp", **env, **({"PADDLE_PS_SECRET": secret} if secret else {})}
        with Job(2, 2, env=env) as job, FaultProxy(job.endpoints, 0, QUIET, meddler=meddler) as proxy:
            for i in range(2):
                job.start("server", i, *OPTIONS)
            for i in range(2):
                job.start("trainer", i, *OPTIONS, "--out", str(out / f"trainer-{i}.npz"), env={"PADDLE_PS_MAP": proxy.map})
            job.end(60)
            assert (name == "tls") == ("over TLS" in job.processes[2].output())
        results[name] = dict(np.load(out / "trainer-0.npz"))
    for key, value in results["plain"].items():
        np.testing.assert_allclose(results["tls"][key], value, rtol=1e-6, atol=1e-7)
    assert b"fc_0.w_0" in b"".join(seen["plain"])
    assert b"fc_0.w_0" not in b"".join(seen["tls"]) and b"CPDL" not in b"".join(seen["tls"])


def test_processes_of_one_host_use_shared_memory_all_the_same(tls):
    with Job(1, 1, env=tls) as job:
        job.start_all(*OPTIONS)
        job.end(60)
        assert "over shared memory" in job.processes[1].output()


def test_who_has_no_tls_is_told(tls):
    with Job(1, 1) as job:
        server = job.start("server", 0, *OPTIONS, env=tls)
        server.wait_for("Server listening on")
        trainer = job.start("trainer", 0, *OPTIONS)
        assert trainer.end(40) != 0
        assert "the server uses TLS and the client does not" in trainer.output()
        with ps.Peer(job.endpoints[0]) as peer:
            assert "PADDLE_PS_TLS_CA" in peer.greet(0).text()
    with Job(1, 1, env={"FLAGS_rpc_deadline": "4000"}) as job:
        server = job.start("server", 0, *OPTIONS)
        server.wait_for("Server listening on")
        trainer = job.start("trainer", 0, *OPTIONS, env=tls)
        assert trainer.end(40) != 0
        assert "does it use TLS" in trainer.output()
        assert "the other side uses TLS, and this process does not" in server.output(), server.output()


@pytest.mark.parametrize("who", ["server", "trainer"])
def test_certificates_of_others_are_not_believed(tmp_path, tls, who):
    other = certify(tmp_path / "other", "other") | {"PADDLE_PS_TLS_CA": tls["PADDLE_PS_TLS_CA"]}
    with Job(1, 1, env={"FLAGS_rpc_deadline": "4000"}) as job:
        server = job.start("server", 0, *OPTIONS, env=other if who == "server" else tls)
        server.wait_for("Server listening on")
        trainer = job.start("trainer", 0, *OPTIONS, env=other if who == "trainer" else tls)
        assert trainer.end(40) != 0
        mine = "does not accept this process's certificate (PADDLE_PS_TLS_CERT)"
        theirs = "the other side's certificate is not accepted"
        assert (mine if who == "trainer" else theirs) in trainer.output(), trainer.output()
        assert (theirs if who == "trainer" else mine) in server.output(), server.output()


def test_a_certificate_is_for_a_host(tmp_path):
    """That of another machine does not do, though its authority is the right one."""
    elsewhere = certify(tmp_path / "elsewhere", "elsewhere", "IP:192.0.2.7,DNS:elsewhere")
    with Job(1, 1, env={**elsewhere, "FLAGS_rpc_deadline": "4000"}) as job:
        job.start("server", 0, *OPTIONS).wait_for("Server listening on")
        trainer = job.start("trainer", 0, *OPTIONS)
        assert trainer.end(40) != 0
        assert "IP address mismatch" in trainer.output()


def test_settings_are_checked(tmp_path, tls):
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate")
    for change, text in [
        ({"PADDLE_PS_TLS_KEY": ""}, "PADDLE_PS_TLS_KEY is set to nothing"),
        (dict.fromkeys(tls, ""), "is set to nothing"),
        ({"PADDLE_PS_TLS_CERT": str(broken)}, "PADDLE_PS_TLS_CERT="),
    ]:
        with Job(1, 1, env={**tls, **change}) as job:
            server = job.start("server", 0, *OPTIONS)
            assert server.end(40) != 0
            assert text in server.output()
    for key in tls:
        with Job(1, 1, env={name: file for name, file in tls.items() if name != key}) as job:
            server = job.start("server", 0, *OPTIONS)
            assert server.end(40) != 0
            assert f"{key} is not set" in server.output()


def test_a_trainer_connects_at_the_end_of_its_process(tmp_path, tls):
    """To say goodbye to a server that comes back, when OpenSSL's other users have ended."""
    with done_while_the_server_is_down(tmp_path, **tls) as (job, _, start_again):
        start_again()
        job.end(30)
