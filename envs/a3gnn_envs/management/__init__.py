"""Dynamic resource management of hybrid training, to be learnt on simulated platforms."""
