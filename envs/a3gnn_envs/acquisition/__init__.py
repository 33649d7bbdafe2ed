"""Which trial of a study comes next, at which fidelity, and when to stop: the environment and its policy."""
