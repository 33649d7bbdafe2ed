"""Several trainers of one mini-batch: their interface, and the messages between them."""
