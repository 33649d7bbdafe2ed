"""The whole story: measure, predict, search, verify, choose."""
