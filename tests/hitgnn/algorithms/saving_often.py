"""`a3gnn` whose checkpoints are always due: torchrun saving_often.py WORDS."""

from a3gnn.cli.main import main
from a3gnn.training import run_folder as save_timer

if __name__ == "__main__":
    save_timer._PERIOD_S, save_timer._PERIOD_WRITES = 0.0, 0
    main()
