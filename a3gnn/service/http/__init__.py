"""What a server does with any request: connections, checks, answers, errors."""
