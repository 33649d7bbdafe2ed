"""The project's own graphs: parameters, communities and features, drawn in pieces."""
