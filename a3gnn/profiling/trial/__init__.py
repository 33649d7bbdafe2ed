"""One trial: its request, its run, its timing and its failures."""
