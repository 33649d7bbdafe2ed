"""The verification: measures contenders and the baseline again before the tune promises anything."""
