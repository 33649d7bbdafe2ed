"""One mini-batch's way: sample, gather, transfer; one after the other or side by side."""
