"""The loop of a tune: opens a session, runs rounds of racing trials, and finishes."""
