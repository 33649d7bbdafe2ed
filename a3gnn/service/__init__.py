"""The service: studies and trainings over HTTP, in a queue that outlives its server; and the client."""
