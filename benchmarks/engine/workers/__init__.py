"""One process per engine: each opens a graph in its library's form and runs mini-batches on request."""
