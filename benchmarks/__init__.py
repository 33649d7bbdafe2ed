"""What a3gnn gains and costs, beside its peers and beside itself: `python -m benchmarks.NAME`."""

import os

# As in a3gnn's own processes (a3gnn/wait_policy.py), which peers' processes inherit: read when torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
