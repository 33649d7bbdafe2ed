"""The play-off: finalists and the default measured again before anything is promised."""
