"""The loop of a tune: opens a session, runs trials that race, and finishes."""
