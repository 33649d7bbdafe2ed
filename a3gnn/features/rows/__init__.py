"""Feature rows as stored arrays, found by address, and copied or aggregated by compiled kernels."""
