"""Gymnasium environments for configuration tuning; importing the package registers them without loading torch."""

from gymnasium.envs.registration import register, registry

#: Registered ids and their entry points.
ENVIRONMENTS = {
    "a3gnn/Acquisition-v0": "a3gnn_envs.acquisition.acquisition_env:AcquisitionEnv",
    "a3gnn/Moves-v0": "a3gnn_envs.moves:MovesEnv",
    "a3gnn/OneShot-v0": "a3gnn_envs.one_shot:OneShotEnv",
}

for _name, _entry_point in ENVIRONMENTS.items():
    if _name not in registry:
        register(id=_name, entry_point=_entry_point)
