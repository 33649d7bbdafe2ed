"""One process an engine: each opens a graph as its library wants it and runs mini-batches when it is told to."""
