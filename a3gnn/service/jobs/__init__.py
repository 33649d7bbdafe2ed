"""Studies and trainings as jobs: the queue, its database, the processes."""
