"""What a3gnn gains and costs, compared with its peers and with itself: `python -m benchmarks.NAME`."""

import os

# As in a3gnn's own processes (a3gnn/threads/wait_policy.py), which peers' processes inherit: read when torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
