"""The service: studies and trainings over HTTP, in a queue that survives its server; and the client."""
