"""Which configuration is measured next, or recommended without a trial."""
