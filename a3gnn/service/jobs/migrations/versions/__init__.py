"""Migration steps, one module each, in the order of their `down_revision`."""
