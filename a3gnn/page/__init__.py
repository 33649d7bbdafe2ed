"""The page of a study: what a person wants to see of it, computed once, and one HTML file that shows it."""
