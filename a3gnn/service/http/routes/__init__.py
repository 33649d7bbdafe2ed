"""Routers of the service's HTTP API, one module per resource."""
