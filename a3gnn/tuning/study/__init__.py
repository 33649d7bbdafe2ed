"""The fixed settings of a tune, its measurements so far, and the files that store both."""
