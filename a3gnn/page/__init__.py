"""The page of a study: its views, computed once, and one HTML file that shows them."""
