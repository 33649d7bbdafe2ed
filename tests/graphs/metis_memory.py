"""What is said where METIS has too little memory."""

import subprocess
import sys


def said_without_memory(importing: str, call: str) -> str:
    """Returns the stderr of a process that partitions a graph of 100,000 nodes with 40 MiB left.

    Args:
        importing: Imports what `call` calls.
        call: Partitions `graph` into two.
    """
    code = (
        "import resource, pymetis, scipy.sparse\n"
        f"{importing}\n"
        "from a3gnn.graphs.graph import Graph\n"
        "large = Graph.load('synthetic:nodes=100000,features=1')\n"
        "graph = Graph.load('synthetic:nodes=300')\n"
        f"{call}\n"
        "pages = int(open('/proc/self/statm').read().split()[0])\n"
        "limit = pages * resource.getpagesize() + (40 << 20)\n"
        "resource.setrlimit(resource.RLIMIT_AS, (limit, limit))\n"
        "graph = large\n"
        f"{call}\n"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr
