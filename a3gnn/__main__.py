"""Runs the command line as `python -m a3gnn`."""

from a3gnn.cli.main import main

if __name__ == "__main__":
    main()
