"""Functions that tests run in processes of their own: `chores:NAME`."""

import json
import os
import signal
import time
from pathlib import Path


def echo(argument):
    return argument


def threads(argument):
    import torch

    torch.set_num_threads(2)
    square = torch.ones(600, 600)
    return {"sum": float((square @ square).sum()), "threads": len(os.listdir("/proc/self/task"))}


def modules_and_threads(argument):
    import gc
    import sys

    threads = len(os.listdir(f"/proc/{os.getppid()}/task"))
    modules = sorted(sys.modules)
    return {"modules": modules, "threads": threads, "server": os.getppid(), "collects": gc.isenabled()}


def build_model(argument):
    import sys

    from a3gnn.models.model import build_model
    from a3gnn.task import Task

    before = set(sys.modules)
    build_model(Task.from_dict(argument["task"]), 8, 3)
    threads = len(os.listdir(f"/proc/{os.getppid()}/task"))
    return {"imported": sorted(set(sys.modules) - before), "threads": threads}


def optimize(argument):
    import sys

    import torch

    from a3gnn.process.memory import process_memory

    modules, before = set(sys.modules), process_memory(os.getpid()).anonymous_bytes
    layer = torch.nn.Linear(4, 4)
    optimizer = torch.optim.Adam(layer.parameters())
    torch.autograd.backward(layer(torch.ones(2, 4)).sum())
    optimizer.step()
    more = process_memory(os.getpid()).anonymous_bytes - before
    until_seen(argument, "stepped")
    return {"imported": sorted(set(sys.modules) - modules), "before": before, "more": more}


def own_bytes():
    from a3gnn.process.memory import process_memory

    return process_memory(os.getpid()).anonymous_bytes


def until_seen(argument, step):
    """Returns once whoever watches has looked at this process (`watched_chores` in test_worker.py)."""
    if "folder" not in argument:
        return
    folder = Path(argument["folder"])
    (folder / f"{step}.draft").write_text(str(os.getpid()))
    (folder / f"{step}.draft").rename(folder / f"{step}.there")
    while not (folder / f"{step}.seen").exists():
        time.sleep(0.005)


def hold_for_a_moment(argument):
    import mmap

    until_seen(argument, "before")
    before = own_bytes()
    mmap.mmap(-1, argument["bytes"], flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()
    until_seen(argument, "after")
    return {"before": before}


def hold(argument):
    before = own_bytes()
    held = bytearray(argument["bytes"])
    held[::4096] = b"1" * len(held[::4096])
    until_seen(argument, "held")
    time.sleep(argument.get("seconds", 0))
    return {"before": before, "held": own_bytes()}


def hold_in_child(argument):
    if os.fork() == 0:
        (Path(argument["folder"]) / "result").write_text(json.dumps(hold(argument)))
        os._exit(0)
    os.wait()
    return {"parent": own_bytes(), "child": json.loads((Path(argument["folder"]) / "result").read_text())}


def sleep(argument):
    time.sleep(argument["seconds"])
    return {}


def idle(argument):
    return {"bytes": own_bytes()}


def sleep_after_telling(argument):
    with open(argument["path"], "w") as file:
        file.write(str(os.getpid()))
    time.sleep(60)


def fail(argument):
    raise ValueError("the reason")


def die(argument):
    os.kill(os.getpid(), signal.SIGKILL)


def kill_server(argument):
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


def wait_for_long(argument):
    time.sleep(3600)


def wait_for_nobody(argument):
    import threading

    threading.Event().wait()
