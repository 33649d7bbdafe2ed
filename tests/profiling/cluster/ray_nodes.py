"""A Ray cluster of three nodes on this machine: `python -m tests.profiling.cluster.ray_nodes FOLDER`.

The first, which the others join, is labeled single; the other two are labeled pair. Each has a cache folder of its
own in FOLDER, by its name. It prints one JSON object when all are there, and ends them when its stdin is closed.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

#: Each node's name and label.
NODES = (("first", "single"), ("left", "pair"), ("right", "pair"))


def main() -> None:
    folder = Path(sys.argv[1])
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ |= {
        "RAY_health_check_period_ms": "500",
        "RAY_health_check_failure_threshold": "4",
    }  # dead in two seconds
    from ray.cluster_utils import Cluster

    from a3gnn.machine.probe import bare_machine
    from a3gnn.profiling.cluster.connection import resources_of

    told = {}
    # Paths of sockets have a hundred characters at most.
    places = tempfile.TemporaryDirectory(prefix="a3gnn-ray-", dir="/tmp", ignore_cleanup_errors=True)
    with places as place:
        os.environ["RAY_TMPDIR"] = place  # it has Ray's note of the cluster on this machine, which is the user's
        Path(place, "ray").mkdir()
        cluster = Cluster(shutdown_at_exit=True)
        for name, label in NODES:
            os.environ["A3GNN_MACHINE_LABEL"] = label
            resources = resources_of(bare_machine())
            cache = folder / name
            cache.mkdir(parents=True)
            environment = {"A3GNN_MACHINE_LABEL": label, "A3GNN_CACHE": str(cache), "RAY_worker_niceness": "0"}
            first = {} if told else {"temp_dir": place, "include_dashboard": False}
            node = cluster.add_node(
                num_cpus=1, object_store_memory=80 << 20, resources=resources, env_vars=environment, **first
            )
            raylet = node.all_processes["raylet"][0].process.pid
            told[name] = {"id": node.node_id, "raylet": raylet, "cache": str(cache)}
        print(json.dumps({"address": cluster.address, "nodes": told}), flush=True)
        sys.stdin.read()
        cluster.shutdown()


if __name__ == "__main__":
    main()
