"""Models of the user: imported, described, trained and evaluated through what their modules declare."""
