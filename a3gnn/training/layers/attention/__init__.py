"""Attention over input rows, compiled: scores, softmax, dropout and weighted sums by head, forward and backward."""
