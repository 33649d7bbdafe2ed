"""Adapts how one trainer's mini-batches are prepared during training, by stage times and free memory."""
