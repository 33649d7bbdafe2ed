"""How fast `a3gnn serve` answers, and what serving takes from the machine that measures.

    python -m benchmarks.service [--studies 1000] [--trials 100] [--readers 50] [--subscribers 200] [--seconds 10]

A server holds so many finished studies of so many trials each. Readers ask one after the other, each over a connection
of its own, without a pause: for a page of 50 studies, for the front of any study, and for a study. Then an event is
written every tenth of a second, and subscribers note when they have read it. At last ten readers ask once a second, as
a page does that is left open: the share of a core that the server takes is what a trial loses. The readers are a
process beside the server, on the same cores, so that its answers wait for them too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from a3gnn.objectives import Priority
from a3gnn.profiling.store.shipped import shipped_measurements
from a3gnn.service.database import open_service_database
from a3gnn.service.event_log import EventLog
from a3gnn.service.home import Home
from a3gnn.service.jobs import Jobs
from a3gnn.tuning.history import History
from a3gnn.tuning.measured_front import measured_front
from a3gnn.tuning.request import TuneRequest
from a3gnn.tuning.study import Study
from a3gnn.tuning.trial import Trial
from benchmarks.report import write_report

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")


def fill(folder: Path, studies: int, trials: int) -> None:
    """Makes a home of so many finished studies, whose trials are shipped measurements."""
    home = Home(folder)
    rows = shipped_measurements()
    setting = max((row.setting for row in rows), key=lambda one: sum(row.setting == one for row in rows))
    mine = [row for row in rows if row.setting == setting]
    made = tuple(Trial("front", {}, mine[n % len(mine)]) for n in range(trials))
    request = TuneRequest("", setting.task, Priority.parse("throughput"), None, None, 1.0, trials, "local")
    front = measured_front(History(Study.of(request, setting), made))
    files = {
        "request.json": json.dumps(request.to_dict()),
        "probes.jsonl": "".join(json.dumps(trial.to_dict()) + "\n" for trial in made),
        "state.json": json.dumps({"elapsed_s": 300.0, "finished_budget": trials}),
        "front.json": json.dumps(front.to_dict()),
    }
    engine = open_service_database(str(folder / "service.sqlite"))
    jobs = Jobs(engine, home.id, studies)
    arguments = {"priority": "throughput", "budget": trials, "task": setting.task.to_dict()}
    for number in range(studies):
        job = jobs.add("study", f"study {number}", 1, arguments, home.id)
        run = home.of(job).run
        run.mkdir(parents=True)
        for name, text in files.items():
            (run / name).write_text(text)
        summary = {"line": "chosen   batch 8192", "trials": trials}
        jobs.update(job.id, status="finished", started=time.time(), ended=time.time(), summary=summary)
    engine.dispose()


class Reader:
    """One connection, over which requests are made one after the other."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def open(self) -> None:
        """Connects."""
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 24)

    async def send(self, path: str) -> None:
        """Asks, and reads as far as the answer's headers."""
        self.writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        assert head.startswith(b"http/1.1 200"), head
        self.length = int(head.partition(b"content-length:")[2].split(b"\r")[0] or 0)

    async def seconds(self, path: str) -> float:
        """Returns how long an answer takes."""
        begun = time.perf_counter()
        await self.send(path)
        await self.reader.readexactly(self.length)
        return time.perf_counter() - begun


async def answers(port: int, readers: int, seconds: float, path: Callable[[], str]) -> list[float]:
    """Returns the seconds of every answer to readers that ask without a pause."""
    found: list[float] = []
    end = time.monotonic() + seconds

    async def ask() -> None:
        reader = Reader(port)
        await reader.open()
        while time.monotonic() < end:
            found.append(await reader.seconds(path()))
        reader.writer.close()

    await asyncio.gather(*(ask() for _ in range(readers)))
    return found


async def fan_out(port: int, subscribers: int, seconds: float, log: EventLog) -> list[float]:
    """Returns the seconds from each event until each subscriber has read it."""
    late: list[float] = []
    ready = asyncio.Semaphore(0)

    async def follow() -> None:
        reader = Reader(port)
        await reader.open()
        await reader.send("/studies/1/events")
        ready.release()
        async for line in reader.reader:
            if line.startswith(b"data: "):
                late.append(time.time() - json.loads(line[6:])["time"])
            if b'"finished"' in line:
                break
        reader.writer.close()

    tasks = [asyncio.create_task(follow()) for _ in range(subscribers)]
    for _ in tasks:
        await ready.acquire()
    for number in range(int(seconds * 10)):
        log.append("line", text=f"line {number}")
        await asyncio.sleep(0.1)
    log.append("status", status="finished")
    await asyncio.gather(*tasks)
    return late


async def idle(port: int, readers: int, seconds: float) -> None:
    """Has readers ask once a second, as open pages do."""

    async def ask() -> None:
        reader = Reader(port)
        await reader.open()
        await asyncio.sleep(random.random())
        for _ in range(int(seconds)):
            await reader.seconds("/studies/2")
            await asyncio.sleep(1)

    await asyncio.gather(*(ask() for _ in range(readers)))


def cpu_seconds(process: int) -> float:
    """Returns the processor time that a process has taken."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident_bytes(process: int) -> int:
    """Returns the memory that a process holds."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * _PAGE


def describe(seconds: Sequence[float]) -> str:
    """Returns the median and the 95th percentile in milliseconds."""
    ordered = sorted(seconds)
    return f"median {1e3 * median(ordered):.1f} ms, 95 % {1e3 * ordered[int(0.95 * len(ordered))]:.1f} ms"


def main() -> None:
    """Prints what each part took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("studies", 1000), ("trials", 100), ("readers", 50), ("subscribers", 200), ("seconds", 10)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="a3gnn-service-"))
    fill(folder, asked.studies, asked.trials)
    command = [sys.executable, "-m", "a3gnn", "serve", "--folder", str(folder), "--port", "0", "--at-once", "0"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        port = int(server.stderr.readline().split()[3].rpartition(":")[2])
        parts = {
            "a page of 50 studies": lambda: "/studies",
            "a front": lambda: f"/studies/{random.randint(1, asked.studies)}/front",
            "a study": lambda: f"/studies/{random.randint(1, asked.studies)}",
        }
        found: dict[str, object] = {}
        asyncio.run(answers(port, 2, 1, parts["a front"]))
        for name, path in parts.items():
            before = resident_bytes(server.pid)
            took = asyncio.run(answers(port, asked.readers, asked.seconds, path))
            grown = (resident_bytes(server.pid) - before) / len(took)
            rate = len(took) / asked.seconds
            found[name] = {"median_s": median(took), "per_s": rate, "grown_bytes_per_request": grown}
            print(f"{name}, {asked.readers} readers: {describe(took)}, {rate:.0f} /s, {grown:+.0f} bytes per request")
        log = EventLog(folder / "studies" / "1" / "events.jsonl")
        late = asyncio.run(fan_out(port, asked.subscribers, asked.seconds, log))
        found["events"] = {"median_s": median(late), "events": len(late)}
        print(f"events to {asked.subscribers} subscribers: {describe(late)} after they were written")
        begun = cpu_seconds(server.pid)
        asyncio.run(idle(port, 10, asked.seconds))
        share = (cpu_seconds(server.pid) - begun) / asked.seconds
        found["ten_open_pages"] = {"share_of_a_core": share}
        print(f"ten open pages: {share:.1%} of a core")
        if asked.json is not None:
            write_report(asked.json, arguments={k: v for k, v in vars(asked).items() if k != "json"}, found=found)
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
