"""`QUICK`: whether trials and play-offs measure as little as they can, for tests of the commands around them."""

from __future__ import annotations

import os

#: Environment variable that processes inherit; 1 makes trials and play-offs measure as little as they can.
QUICK_VARIABLE = "A3GNN_QUICK"
#: Its value when a3gnn is imported. Trials then have one short timed window, never repeated. A play-off has one round,
#: one alternation and no further seed. Such measurements say little of any configuration.
QUICK = os.environ.get(QUICK_VARIABLE) == "1"
