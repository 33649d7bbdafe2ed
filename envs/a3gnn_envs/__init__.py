"""The gymnasium environment of configurations; importing the package registers them without loading torch."""

from gymnasium.envs.registration import register, registry

#: Registered ids and their entry points.
ENVIRONMENTS = {"a3gnn/Configure-v0": "a3gnn_envs.configure_env:ConfigureEnv"}

for _name, _entry_point in ENVIRONMENTS.items():
    if _name not in registry:
        register(id=_name, entry_point=_entry_point)
