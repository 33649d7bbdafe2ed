"""The pipeline of a mini-batch (sample, gather, transfer): its stages one after the other, or overlapped."""
