"""Runs the script argv[1] with the arguments after it, and ends before Python takes itself down.

A group that FSDP or DistributedDataParallel still hold then aborts a few of a hundred processes, which are done.
"""

import os
import runpy
import sys

del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
sys.stdout.flush()
os._exit(0)
