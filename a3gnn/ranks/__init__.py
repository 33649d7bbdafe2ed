"""Several trainers of one mini-batch: who they are, and what they send each other."""
