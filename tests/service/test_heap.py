"""Heaps of the C library, in a process of its own."""

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import ctypes, sys, threading
from a3gnn.service.http.serve import keep_one_heap

if sys.argv[1] == "one":
    keep_one_heap()
there, go = threading.Barrier(9), threading.Event()

def allocate():
    kept = [bytes(10_000) for _ in range(10)]
    there.wait()
    go.wait()

threads = [threading.Thread(target=allocate) for _ in range(8)]
for thread in threads:
    thread.start()
there.wait()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
file = libc.fopen(sys.argv[2].encode(), b"w")
libc.malloc_info(0, ctypes.c_void_p(file))
libc.fclose(ctypes.c_void_p(file))
go.set()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="heaps are counted in glibc's malloc_info")
def test_threads_share_one_heap(tmp_path: Path) -> None:
    heaps, chosen = {}, ("MALLOC_ARENA_MAX", "GLIBC_TUNABLES")
    usual = {name: value for name, value in os.environ.items() if name not in chosen}
    for how in ("one", "default"):
        file = tmp_path / how
        subprocess.run([sys.executable, "-c", CODE, how, str(file)], check=True, timeout=60, env=usual)
        heaps[how] = len(re.findall("<heap nr=", file.read_text()))
    assert heaps["one"] == 1
    assert heaps["default"] > 1
