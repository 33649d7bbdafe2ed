"""What is fixed for a tune, what it has measured so far, and the files that keep both."""
