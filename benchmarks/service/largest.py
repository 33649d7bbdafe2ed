"""What a request of at most 1 MB costs: how long it holds up others, and how much memory it takes.

    python -m benchmarks.service.largest [--only NAME ...] [--json FILE]

Each request is the dearest of its kind that we know: objects with many fields, deep nesting, long numbers and texts,
forms with many fields, uploads with many faults. While one is answered, another connection asks without a pause for a
page that does not exist, which the server's event loop answers by itself. The longest of these answers is how long the
request held up the loop, time of Python's lock included. The memory is the server's anonymous memory at its most, above
what it had before.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import shutil
import tempfile
import time
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from a3gnn.service.client import Client
from a3gnn.service.jobs.home import EventLog
from benchmarks.report import write_report
from benchmarks.service.server import Server, fill, serving

_MOST = 1_000_000
_JSON, _FORM = "application/json", "application/x-www-form-urlencoded"
_BYTES = "application/octet-stream"
#: Seconds between two looks at the memory.
_LOOK_S = 0.02


class Asked(NamedTuple):
    """A request.

    Attributes:
        name: What it is.
        path: Its path.
        body: Its body.
        kind: Its media type.
        headers: Further headers.
        method: Its method.
    """

    name: str
    path: str
    body: bytes
    kind: str = _JSON
    headers: str = ""
    method: str = "POST"


class Cost(NamedTuple):
    """What a request cost.

    Attributes:
        name: The request.
        status: The status of its answer; 0 if the connection was closed.
        seconds: Seconds until its answer.
        loop_s: The longest answer on the other connection.
        more_bytes: Memory that the server took at most.
        held_bytes: Memory that it still had after a second.
    """

    name: str
    status: int
    seconds: float
    loop_s: float
    more_bytes: int
    held_bytes: int


def _filled(item: str, around: str = "[]") -> bytes:
    """Returns a JSON list or object of so many items as fit."""
    most = (_MOST - 200) // (len(item) + 9)
    items = [f'"{n:06}": {item}' if around == "{}" else item for n in range(most if around == "{}" else most * 2)]
    return (around[0] + ",".join(items)[: _MOST - 300].rpartition(",")[0] + around[1]).encode()


def _field(name: str, value: bytes) -> bytes:
    return b'{"graph": 1, "' + name.encode() + b'": ' + value + b"}"


def _zip(members: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for n in range(members):
            archive.writestr(f"a{n}.npy", b"\x93NUMPY\x01\x00v\x00" + b" " * 118)
    return file.getvalue()[:_MOST]


def requests() -> list[Asked]:
    """Returns the requests."""
    deep, number = b"[" * (_MOST // 2 - 100) + b"]" * (_MOST // 2 - 100), b"9" * (_MOST - 100)
    text = b'"' + b"a" * (_MOST - 100) + b'"'
    escaped = b'"' + b"\\u00e9" * ((_MOST - 100) // 6) + b'"'
    objects = b"[" + b",".join([b'{"a":1}'] * (_MOST // 9)) + b"]"
    numbers, pairs = _filled("1"), _filled("[1,2]", "{}")
    found = [
        Asked(f"{path} {name}", path, _field(field, body))
        for path in ("/studies", "/recommend")
        for name, field, body in (
            ("ranges with many fields", "ranges", pairs),
            ("fix with many fields", "fix", _filled("1", "{}")),
            ("fix with many objects", "fix", b'{"a": ' + objects + b"}"),
            ("many fanouts", "fanouts", numbers),
            ("deep fanouts", "fanouts", deep),
            ("a long number", "seed", number),
            ("a long name", "priority", text),
            ("an escaped name", "priority", escaped),
        )
    ]
    found += [
        Asked("/studies many fields", "/studies", _filled("1", "{}")),
        Asked("/studies the same field", "/studies", b"{" + b",".join([b'"graph":1'] * (_MOST // 11)) + b"}"),
        Asked("/studies no JSON", "/studies", b"[" * (_MOST - 100)),
        Asked("/graphs a long path", "/graphs", b'{"dataset": ' + text + b"}"),
        Asked("/graphs a long recipe", "/graphs", b'{"dataset": "synthetic:' + b"nodes=1," * 100_000 + b'"}'),
        Asked("/studies/1/pick many fields", "/studies/1/pick", _filled("1", "{}")),
        Asked("/studies/1/pick", "/studies/1/pick", b'{"priority": "memory"}'),
        Asked("complete many speeds", "/studies/1/trials/1/complete", b'{"throughput_epochs_per_s": ' + numbers + b"}"),
        Asked("complete many points", "/studies/1/trials/1/complete", b'{"val_accuracy": ' + numbers + b"}"),
        Asked("complete many objects", "/studies/1/trials/1/complete", b'{"batches": ' + objects + b"}"),
        Asked("complete a long text", "/studies/1/trials/1/complete", b'{"detail": ' + escaped + b"}"),
        *(Asked(f"{path} many values", path, b"a=1&" * (_MOST // 4), _FORM) for path in ("/start", "/login", "/trash")),
        *(Asked(f"{path} a long value", path, b"budget=" + b"%41" * (_MOST // 3 - 9), _FORM) for path in ("/start",)),
        Asked("/studies/1/page a long budget", "/studies/1/page", b"action=resume&budget=" + b"9" * 999_000, _FORM),
        Asked("/start fields", "/start", urlencode({"dataset": "a" * 900_000, "budget": "1"}).encode(), _FORM),
        Asked("/profiles lines", "/profiles", b"{}\n" * (_MOST // 3), _BYTES),
        Asked("/profiles deep", "/profiles", deep + b"\n", _BYTES),
        Asked("/profiles one line", "/profiles", text + b"\n", _BYTES),
        Asked("/graphs/upload members", "/graphs/upload", _zip(8000), _BYTES),
        Asked("/graphs/upload zeros", "/graphs/upload", bytes(_MOST), _BYTES),
        Asked("a long query", "/studies?" + "status=running&" * 4000, b"", method="GET"),
        Asked("a long cookie", "/studies", b"", headers="Cookie: " + "a=b; " * 12_000 + "\r\n", method="GET"),
        Asked("many headers", "/studies", b"", headers="X-A: b\r\n" * 7000, method="GET"),
        Asked("a study's page", "/studies/1/page", b"", method="GET"),
        Asked("a study's views", "/studies/1/views", b"", method="GET"),
    ]
    return found


async def ask(port: int, asked: Asked) -> tuple[int, float]:
    """Returns the status of the answer, and its seconds."""
    begun = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    kind = f"Content-Type: {asked.kind}\r\nContent-Length: {len(asked.body)}\r\n" if asked.method == "POST" else ""
    head = f"{asked.method} {asked.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{kind}{asked.headers}\r\n"
    answer = b""
    with suppress(OSError):
        writer.write(head.encode() + asked.body)
        answer = await reader.read()
    writer.close()
    return int(answer[9:12] or 0), time.perf_counter() - begun


async def beside(port: int, ended: asyncio.Event) -> float:
    """Returns the longest answer that only the loop takes part in, until `ended` is set."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    most = 0.0
    while not ended.is_set():
        begun = time.perf_counter()
        writer.write(b"GET /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(head.lower().partition(b"content-length:")[2].split(b"\r")[0]))
        most = max(most, time.perf_counter() - begun)
        await asyncio.sleep(0.002)
    writer.close()
    return most


async def cost(server: Server, asked: Asked) -> Cost:
    """Returns what a request costs."""
    before, seen, ended = server.anonymous_bytes, [0], asyncio.Event()

    def watch() -> None:
        while not ended.is_set():
            seen.append(server.anonymous_bytes)
            time.sleep(_LOOK_S)

    watching, other = asyncio.create_task(asyncio.to_thread(watch)), asyncio.create_task(beside(server.port, ended))
    await asyncio.sleep(0.1)
    status, seconds = await ask(server.port, asked)
    ended.set()
    await watching
    loop_s = await other
    await asyncio.sleep(1.0)
    return Cost(asked.name, status, seconds, loop_s, max(seen) - before, server.anonymous_bytes - before)


def main() -> None:
    """Measures each request, and prints a line for it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], help="Parts of names.")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="a3gnn-largest-"))
    found: list[dict[str, Any]] = []
    try:
        fill(folder, 2, 100)
        EventLog(folder / "studies" / "1" / "events.jsonl").append("status", status="finished")
        with serving(folder, at_once=0) as server:
            Client(f"http://127.0.0.1:{server.port}").add_graph("synthetic:nodes=300")  # the studies name it
            warm = Asked("warm", "/studies", json.dumps({"graph": 1}).encode())
            for _ in range(20):
                asyncio.run(ask(server.port, warm))
            for asked in requests():
                if chosen.only and not any(part in asked.name for part in chosen.only):
                    continue
                one = asyncio.run(cost(server, asked))
                found.append(one._asdict())
                print(
                    f"{one.name:<36} {one.status:>3} in {one.seconds:.3f} s, loop {one.loop_s * 1e3:>6.1f} ms, memory "
                    f"{one.more_bytes / 2**20:>6.1f} MiB, {one.held_bytes / 2**20:.1f} after",
                    flush=True,
                )
    finally:
        shutil.rmtree(folder)
    if chosen.json is not None:
        write_report(chosen.json, arguments={"only": chosen.only}, found=found)


if __name__ == "__main__":
    main()
