"""A process of a job for tests of launchers, which imports nothing of paddle: launched.py DIR [NAME=WHAT,WHAT]...

Writes to DIR/NAME.json who it is: its process id, its environment, its arguments. It ends when there is DIR/go. For NAME
(worker-1, server-0, all) something else can be said:

    exit:N    ends with that status
    first:N   ends with that status when it is started for the first time
    kill      kills itself
    stays     lives until it is told to end
    deaf      does not hear SIGTERM and SIGINT
    child     has a child in a session of its own; its process id is in DIR/NAME.child
    leave     has such a child, and ends
    say:TEXT  prints it
    late:N    ends with that status when it is told to end
    calls     tries to reach server 0 until it gets a connection, and waits for an answer
    names:ID  waits for that process and prints its process id as servers tell of a trainer that failed
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time

folder, *rows = sys.argv[1:]
role = os.environ["TRAINING_ROLE"]
name = f"server-{os.environ['PADDLE_PSERVER_ID']}" if role == "PSERVER" else f"worker-{os.environ['PADDLE_TRAINER_ID']}"
here = os.path.join(folder, name)
asked = [what for row in rows for key, _, texts in [row.partition("=")] if key in (name, "all") for what in texts.split(",")]
times = sum(1 for _ in open(f"{here}.starts")) if os.path.exists(f"{here}.starts") else 0
with open(f"{here}.starts", "a") as file:
    file.write(f"{os.getpid()}\n")

if "deaf" in asked:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
if "child" in asked or "leave" in asked:
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    with open(f"{here}.child", "w") as file:
        file.write(str(child.pid))
with open(f"{here}.new", "w") as file:
    json.dump({"pid": os.getpid(), "env": dict(os.environ), "argv": sys.argv, "cwd": os.getcwd(),
               "unbuffered": sys.stdout.line_buffering or sys.stdout.write_through}, file)
os.rename(f"{here}.new", f"{here}.json")
for what in asked:
    verb, _, value = what.partition(":")
    if verb == "say":
        print(value)
    elif verb == "exit" or verb == "first" and times == 0:
        sys.exit(int(value))
    elif verb == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif verb == "leave":
        sys.exit(0)
    elif verb == "late":
        signal.signal(signal.SIGTERM, lambda *_, status=int(value): sys.exit(status))
    elif verb == "names":
        while not os.path.exists(os.path.join(folder, f"{value}.ready")):
            time.sleep(0.01)
        with open(os.path.join(folder, f"{value}.json")) as file:
            print(f"trainer (host here, pid {json.load(file)['pid']}, 127.0.0.1:1) failed")
    elif verb == "calls":
        host, _, port = os.environ["PADDLE_PSERVERS_IP_PORT_LIST"].partition(",")[0].rpartition(":")
        while True:
            try:
                socket.create_connection((host, int(port))).recv(1)
            except OSError:
                time.sleep(0.05)
open(f"{here}.ready", "w").close()
while "stays" in asked or not os.path.exists(os.path.join(folder, "go")):
    time.sleep(0.01)
