"""Lines for people: a tune's inputs, findings and choice."""
