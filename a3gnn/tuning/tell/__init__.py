"""Lines for people: what a tune reads, finds and chooses."""
