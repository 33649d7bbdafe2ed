"""The store of measurements, and their export, import and shipped files."""
