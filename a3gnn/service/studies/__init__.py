"""The studies of a server: their requests, files, trials and predictions."""
