"""The loop of a tune: a session, rounds of trials, the race among them, the end; and tunes of several machines."""
