"""One trial: what it is asked, how it runs and is timed, and how it fails."""
