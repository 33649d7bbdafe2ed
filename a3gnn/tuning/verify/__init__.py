"""The play-off: measures finalists and the default again before the tune promises anything."""
