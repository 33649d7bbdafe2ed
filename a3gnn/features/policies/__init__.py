"""Which rows a cache holds: static choices made once, and dynamic policies that change with every mini-batch."""
