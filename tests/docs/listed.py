"""What becomes of each command that the docs show: run by `test_commands.py`, or not, with the reason.

A command that is not listed under its page fails a test, and so does one that is listed and no longer there. What is
not run is checked all the same: a3gnn's options by the real parser, a benchmark's by its sources, a target by the
Makefile, an extra by pyproject.toml.
"""

from __future__ import annotations

import re

from tests.docs.running import Substitutions

#: A command that is run.
RUN = "run"

INSTALLS = "installs packages"
LONG = "measures for minutes or hours"
SERVES = "serves until it is ended: the commands below it are asked of a server that the test starts"
ELSEWHERE = "run on another page, which shows it too and begins with the same folder"
LIKE_README = (
    "the tune of README.md with other limits, priority, fanouts or knobs, which are checked as a tune checks them"
)
AT_A_SERVER = "tests/service/test_studies.py tunes so"
PICKS_THERE = "tests/page/test_service_page.py picks so"
CLUSTER = "needs a Ray cluster; the tests in tests/profiling/cluster start one"
OVER_PARTS = "needs graph servers; the tests in tests/parts start three"
PLATFORM = "needs the files that the page shows below; tests/hitgnn/platforms/test_files.py reads such"
FOUR = "starts four processes; tests/hitgnn/algorithms/test_train.py starts two, and test_equality.py four"
GOES_ON = "goes on with the command above, which has ended by then"
AUTO = "trains until nothing improves; tests/tuning/test_auto.py runs it"
EDGES = "tests/training/test_edge_tasks.py runs such on a small graph"
LINKS = "tests/training/test_links.py runs such on a small graph"
LINK_TUNES = "tests/tuning/test_link_tunes.py runs such on a small graph"
EVENTS = "tests/training/test_events.py runs such on a small graph"
TYPED = "tests/cli/test_typed_commands.py runs such on a graph with types"
SKILL = "tests/examples/test_skill.py runs them"
GROUPS = "needs a graph larger than memory; tests/apply/test_predict.py leaves little memory beside a small one"
WHOLE = "tests/training/test_whole_graph.py runs such on a small graph"
RECIPE = "tests/tuning/engines/test_recipe.py runs such a tune by formulas"
COMPILES = "needs a C++ compiler; the tests in tests/hitgnn/hls run it where there is one"
CONTAINER = "needs a container runtime; tests/service/test_deployment.py reads its files"
BACKUP = "needs the programs sqlite3 and rsync"
DATABASE = "needs the database server of the example; tests/service/test_postgresql.py starts one"

COMMANDS: dict[str, dict[str, str]] = {
    "docs/research/accelerators.md": {
        "a3gnn explore --platform u250": RUN,
        "a3gnn explore --platform u250 --dataset graph.npz --beta 0.8 --model gcn": RUN,
        "a3gnn explore --platform mine.toml --devices 8 --json": PLATFORM,
        "a3gnn explore --platform u250 --dataset graph.npz --algorithms": RUN,
    },
    "docs/research/algorithms.md": {
        "a3gnn train --algorithm distdgl --ranks 2 --model sage --dataset graph.npz --out runs/distdgl": RUN,
        "torchrun --standalone --nproc-per-node 4 -m a3gnn train --algorithm p3 --config runs/mine/tuned.json"
        " --out runs/p3": FOUR,
    },
    "docs/howto/deploy.md": {
        "mkdir -p secrets graphs": CONTAINER,
        "python3 -c 'import secrets; print(secrets.token_urlsafe(32))' > secrets/token": CONTAINER,
        "cp secrets/token secrets/database": CONTAINER,
        "docker compose up --build": CONTAINER,
        "sqlite3 runs/service/service.sqlite \".backup 'backup.sqlite'\"": BACKUP,
        "rsync -a --exclude 'service.sqlite*' runs/service/ /backup/service/": BACKUP,
        "mv backup.sqlite /backup/service/service.sqlite": BACKUP,
    },
    "docs/howto/distributed.md": {
        "torchrun --standalone --nproc-per-node 2 -m a3gnn train runs/mine --out runs/two": RUN,
        "torchrun --standalone --nproc-per-node 2 -m a3gnn train runs/mine --out runs/two --resume": GOES_ON,
    },
    "docs/howto/quality.md": {
        "a3gnn tune --dataset graph.npz --priority quality --memory-limit 1GiB --budget 15min --out runs/best": RECIPE,
        "a3gnn train runs/best --out runs/trained": RECIPE,
    },
    "docs/howto/full_graph.md": {
        "a3gnn train --model sage --dataset graph.npz --layers 6 --norm batch --residual --fix batch_size=all"
        " --out runs/full": WHOLE,
    },
    "docs/research/adapt.md": {
        "a3gnn train runs/mine --adapt --out runs/adapted": RUN,
    },
    "docs/research/hybrid.md": {
        "a3gnn tune --dataset graph.npz --range trainers=1:2 --fix prefetch_depth=1 --out runs/trainers": LIKE_README,
        "a3gnn train runs/mine --trainers cpu:1,cpu:1 --out runs/hybrid": RUN,
        "a3gnn train runs/mine --trainers cpu:1,cpu:1 --prefetch 1,1,1 --out runs/prefetched": RUN,
        "a3gnn train runs/mine --trainers cpu:1,cpu:1 --adapt --out runs/adapted": RUN,
    },
    "docs/howto/graph_servers.md": {
        'pip install ".[parts]"': INSTALLS,
        "a3gnn graph convert graph.npz /data/graph": RUN,
        "a3gnn parts make /data/graph /data/parts --num-parts 3": RUN,
        "a3gnn parts serve /data/parts/part-0 --port 8652": SERVES,
        "a3gnn train --config tuned.json --dataset parts:HOST0:8652,HOST1:8652,HOST2:8652": OVER_PARTS,
        "a3gnn tune --dataset graph.npz --fix bias_rate=1 --fix num_partitions=1 --fix feature_tier=ram"
        " --fix cache_policy=degree --fix input_aggregation=sampled --fix seed_order=random --fix sampling_device=cpu"
        " --budget 10min --out runs/parts": LIKE_README,
    },
    "docs/research/hls.md": {
        "a3gnn accelerator generate --units 8 --multipliers 2048 --out runs/accelerator --check": COMPILES,
    },
    "docs/howto/ray.md": {
        "ray start --head --port 6379 --include-dashboard false --disable-usage-stats": CLUSTER,
        'RAY_worker_niceness=0 ray start --address HEAD:6379 --resources "$(a3gnn machines --here)"'
        " --disable-usage-stats": CLUSTER,
        "a3gnn tune --executor ray --dataset graph.npz --out runs/mine": CLUSTER,
        "a3gnn tune --executor ray --machines fast --dataset graph.npz --out runs/fast": CLUSTER,
        "a3gnn profile --executor ray --machines fast --dataset graph.npz --configs 100": CLUSTER,
        "a3gnn serve --executor ray --machines fast --at-once 4": CLUSTER,
        "a3gnn tune --executor ray --machines all --dataset graph.npz --priority time --out runs/which": CLUSTER,
        "HEAD=$(hostname)": CLUSTER,
        "srun --nodes=$((SLURM_NNODES - 1)) --ntasks-per-node=1 --exclude=$HEAD bash -c 'RAY_worker"
        "_niceness=0 ray start --address '$HEAD':6379 --resources \"$(a3gnn machines --here)\" --disa"
        "ble-usage-stats --block' &": CLUSTER,
        "sleep 20": CLUSTER,
        "a3gnn tune --executor ray --machines all --dataset graph.npz --out runs/which": CLUSTER,
    },
    "README.md": {
        "make tune": INSTALLS + ", then tunes for five minutes",
        "make test": "runs these tests",
        "source .venv/bin/activate": "enters what make tune installed",
        "a3gnn recommend --dataset graph.npz --memory-limit 4GiB": RUN,
        "a3gnn tune --dataset graph.npz --memory-limit 4GiB --budget 10min --out runs/mine": RUN,
        "a3gnn train runs/mine --out runs/trained": RUN,
        "a3gnn report runs/mine": ELSEWHERE,
        "a3gnn pick runs/mine --priority memory": RUN,
    },
    "CONTRIBUTING.md": {
        "make test": "runs these tests",
        "make lint": "checks style and types, as every change is checked",
        "make docs": "tests/docs/test_site.py builds the site",
        "source .venv/bin/activate": "enters the environment that make test installed",
        "a3gnn tune --dataset synthetic:nodes=2000 --budget 20s --out runs/try": LIKE_README,
    },
    "SKILL.md": {
        "a3gnn doctor --dataset graph.npz --quiet --json": SKILL,
        "a3gnn recommend --dataset graph.npz --memory-limit 4GiB --quiet --json": SKILL,
        "a3gnn tune --dataset graph.npz --memory-limit 4GiB --budget 10min --out runs/mine --quiet --json": SKILL,
        "a3gnn pick runs/mine --priority memory --json": SKILL,
        "a3gnn train runs/mine --out runs/trained --quiet --json": SKILL,
    },
    "docs/howto/agents.md": {
        "a3gnn recommend --dataset graph.npz --memory-limit 4GiB --quiet --json": RUN,
        "a3gnn schema recommend": RUN,
        "a3gnn doctor --dataset graph.npz --json": RUN,
        "a3gnn status runs/mine --json": RUN,
        "a3gnn stop runs/mine": "needs a running tune; tests/cli/test_status.py stops one",
        'pip install ".[mcp]"': INSTALLS,
    },
    "profiles/README.md": {
        "python -m benchmarks.corpus --export profiles/corpus.jsonl.gz": LONG,
        "python -m benchmarks.corpus --typed --rows 10 --export profiles/typed.jsonl.gz": LONG,
    },
    "docs/design/trials.md": {
        "python -m benchmarks.emulated --grids benchmarks/results/grids/*.gz benchmarks/results/grids/further/*.gz "
        '--seeds 1 --engines ppo gp tpe "gp alone"': LONG,
    },
    "docs/howto/budget.md": {
        "a3gnn tune --dataset graph.npz --budget 5min --out runs/mine": LIKE_README,
        "a3gnn tune --dataset graph.npz --budget 15min --out runs/mine --resume": GOES_ON,
        "a3gnn train --auto --dataset graph.npz --out runs/once": AUTO,
        "touch runs/mine/stop": RUN,
    },
    "docs/howto/cache_folder.md": {
        "export A3GNN_CACHE=/fast/a3gnn": "sets a variable of the shell",
        "a3gnn cache info": RUN,
        "a3gnn cache clean": RUN,
        "a3gnn cache clean --older-than 30d": RUN,
        "a3gnn cache clean --downloads": RUN,
        "a3gnn cache clean --dry-run": RUN,
    },
    "docs/howto/command_line.md": {
        """echo 'eval "$(_A3GNN_COMPLETE=bash_source a3gnn)"' >> ~/.bashrc""": RUN,
        """echo 'eval "$(_A3GNN_COMPLETE=zsh_source a3gnn)"' >> ~/.zshrc""": RUN,
        "_A3GNN_COMPLETE=fish_source a3gnn > ~/.config/fish/completions/a3gnn.fish": RUN,
    },
    "docs/design/engine.md": {"a3gnn graph convert synthetic:nodes=20000000,degree=17,features=32,classes=16 big": RUN},
    "docs/benchmarks/engine.md": {
        "make peers": INSTALLS,
        "make bench": LONG,
        "python -m benchmarks.engine --graphs arxiv --rows load train-sage --rounds 3": LONG,
        "python -m benchmarks.engine --quick": LONG,
        "python -m benchmarks.engine --short": LONG,
        "python -m benchmarks.engine --show benchmarks/results/engine-amd-epyc-2026-11-21.json": RUN,
    },
    "docs/benchmarks/tunes.md": {
        "python -m benchmarks.levers graph.npz": LONG,
        "python -m benchmarks.table2 --budget 5min": LONG,
        "python -m benchmarks.tuned_gain runs/mine": LONG,
        "python -m benchmarks.live_tunes --budget 90s --rounds 2": LONG,
        "python -m benchmarks.auto_gain --epochs 60": LONG,
    },
    "docs/index.md": {'pip install ".[plot]"': INSTALLS},
    "docs/reference/data_formats.md": {
        "a3gnn graph info mine.npz": RUN,
        "a3gnn graph convert typed.npz typed": RUN,
        "a3gnn graph info typed": RUN,
    },
    "docs/reference/knobs.md": {
        "a3gnn tune --dataset graph.npz --fix feature_tier=disk --range seed_fanout=5:15 --budget 10min"
        " --out runs/fixed": LIKE_README,
    },
    "docs/howto/fanouts.md": {
        "a3gnn tune --dataset graph.npz --fanouts 25,10 --budget 10min --out runs/mine": LIKE_README,
        "a3gnn front runs/mine": RUN,
        "a3gnn graph info graph.npz": ELSEWHERE,
        "a3gnn tune --dataset graph.npz --fanouts 15,10,5 --range seed_fanout=5:15 --budget 10min"
        " --out runs/three": LIKE_README,
        "a3gnn recommend --dataset graph.npz": RUN,
    },
    "docs/howto/gpu_waits.md": {
        "a3gnn tune --dataset graph.npz --priority throughput --budget 10min --out runs/mine": LIKE_README,
        "a3gnn report runs/mine": ELSEWHERE,
    },
    "docs/howto/many_machines.md": {
        "a3gnn profiles export measured.jsonl.gz --store runs/mine/profiles.sqlite": RUN,
        "a3gnn profiles import measured.jsonl.gz --store runs/profiles.db": RUN,
        "a3gnn recommend --dataset graph.npz": RUN,
    },
    "docs/howto/out_of_memory.md": {
        "a3gnn tune --dataset graph.npz --priority memory --memory-limit 2GiB --budget 10min"
        " --out runs/small": LIKE_README,
        "a3gnn train runs/small": RUN,
        "a3gnn graph info graph.npz": RUN,
        "a3gnn tune --dataset graph.npz --fix feature_tier=disk --memory-limit 1GiB --budget 10min"
        " --out runs/disk": LIKE_README,
        "a3gnn graph convert graph.npz big --memory-budget 512MiB": RUN,
        "a3gnn tune --dataset big --memory-limit 1GiB --budget 10min --out runs/big": LIKE_README,
        "a3gnn train runs/small --host-memory-limit 3GiB --out runs/trained": RUN,
        "a3gnn train runs/small --host-memory-limit 4GiB --out runs/trained --resume": RUN,
    },
    "docs/howto/own_loop.md": {"a3gnn serve": SERVES},
    "docs/howto/out_of_core.md": {
        "a3gnn graph convert huge.npz /fast/huge": RUN,
        "a3gnn tune --dataset /fast/huge --memory-limit 1GiB --budget 10min --out runs/huge": RUN,
        "a3gnn train runs/huge": RUN,
        "a3gnn graph verify /fast/huge": RUN,
        "make scale SCALES=26": LONG,
    },
    "docs/howto/link_tasks.md": {
        "a3gnn train --dataset movielens_small.npz --target user,rates,movie --model rsage --out runs/movies": LINKS,
        "a3gnn predict runs/movies --dataset movielens_small.npz --top 10 --out best.npy": LINKS,
        'a3gnn train --dataset wn18rr.npz --target "synset,*,synset" --model embedding --decoder rotate'
        " --negatives softmax:512 --lr 0.01 --out runs/facts": LINKS,
        "a3gnn tune --dataset movielens_small.npz --target user,rates,movie --memory-limit 2GiB --budget 10min"
        " --out runs/tuned": LINK_TUNES,
        "a3gnn train runs/tuned --out runs/best": LINK_TUNES,
        "a3gnn predict --heuristic item-neighbors --dataset movielens_small.npz --target user,rates,movie --top 10"
        " --out simple.npy": LINK_TUNES,
    },
    "docs/howto/edge_tasks.md": {
        "a3gnn train --dataset movielens_small.npz --target user,rates,movie=edge_weight --model rsage --hidden 64"
        " --metric rmse --out runs/ratings": EDGES,
        "a3gnn predict runs/ratings --dataset movielens_small.npz --edges pairs.npy --out ratings.npy": EDGES,
    },
    "docs/howto/events.md": {
        "a3gnn train --dataset college_msg.npz --target user,messages,user --model rsage --fanouts 10 --hidden 64"
        " --decoder mlp --epochs 5 --out runs/messages": EVENTS,
        "a3gnn predict runs/messages --dataset college_msg.npz --top 10 --out next.npy": EVENTS,
        "a3gnn predict runs/messages --dataset college_msg.npz --top 10 --at 1090000000 --out then.npy": EVENTS,
    },
    "docs/howto/node_types.md": {
        "a3gnn graph info papers.npz": TYPED,
        "a3gnn tune --dataset papers.npz --target paper --memory-limit 2GiB --out runs/papers": TYPED,
        "a3gnn train runs/papers": TYPED,
        "a3gnn predict runs/train-papers --dataset papers.npz --out topics.npy": TYPED,
        "a3gnn tune --dataset papers.npz --model typed_models:HGT --out runs/hgt": TYPED,
    },
    "docs/howto/own_models.md": {
        "a3gnn tune --model my_package.models:make_model --dataset graph.npz --fanouts 15,10 --out runs/mine": RUN,
        "a3gnn train runs/mine": RUN,
        "a3gnn train --model my_package.models:make_model --dataset graph.npz --fanouts 15,10": RUN,
    },
    "docs/howto/picking.md": {
        "a3gnn pick runs/mine --max-memory 4GiB --max-accuracy-drop 0.5 --priority time": RUN,
        "a3gnn pick runs/mine --priority memory": RUN,
        "a3gnn compare runs/throughput runs/time": RUN,
        "a3gnn export runs/mine --optuna sqlite:///optuna.db": RUN,
        "optuna-dashboard sqlite:///optuna.db": "serves; tests/tuning/outcome/test_optuna_export.py asks it",
    },
    "docs/howto/plain_pyg.md": {
        "a3gnn tune --dataset graph.npz --fix cache_bytes=0 --fix feature_tier=ram --fix num_partitions=1"
        " --fix seed_order=random --fix parallel_mode=sequential --fix input_aggregation=sampled"
        " --fix sampling_device=cpu --fix trainers=1 --budget 10min --out runs/portable": LIKE_README,
    },
    "docs/howto/predict.md": {
        "a3gnn predict runs/train-mine --dataset graph.npz --out predictions.npy": RUN,
        "a3gnn predict --heuristic mlp --dataset graph.npz --out simple.npy": RUN,
        "a3gnn predict runs/train-huge --dataset /fast/huge --out predictions.npy --host-memory-limit 1GiB": GROUPS,
        "a3gnn predict runs/train-huge --dataset /fast/huge --out predictions.npy --scratch-dtype float16": GROUPS,
    },
    "docs/howto/report.md": {"a3gnn report runs/mine": RUN, "a3gnn report runs/mine --out mine.html": RUN},
    "docs/howto/search.md": {
        "a3gnn tune --dataset graph.npz --priority accuracy --budget 10min --search layers=2,3,4"
        " --search hidden=64,128,256 --search dropout=0.0:0.7 --search lr=1e-3:3e-2:log --out runs/shapes": RUN,
        "a3gnn train runs/shapes": RUN,
        "a3gnn tune --dataset graph.npz --priority accuracy --search space.toml --out runs/file": RUN,
    },
    "docs/howto/service.md": {
        'pip install ".[serve]"': INSTALLS,
        "a3gnn serve --data-root ~/graphs": SERVES,
        "a3gnn tune --server http://127.0.0.1:8642 --dataset graph.npz --budget 10min": AT_A_SERVER,
        "a3gnn pick http://127.0.0.1:8642/studies/1 --priority memory": PICKS_THERE,
        "a3gnn pull http://127.0.0.1:8642 1 runs/copied": PICKS_THERE,
        'export A3GNN_TOKEN="$(cat ~/token)"': "sets a variable of the shell",
        "a3gnn serve --data-root ~/graphs --host 0.0.0.0 --allow-host gnn.example": SERVES,
        "H=http://127.0.0.1:8642; J='Content-Type: application/json'": RUN,
        """curl $H/graphs -H "$J" -d '{"dataset": "mine.npz"}'""": RUN,
        'curl --data-binary @mine.npz "$H/graphs/upload?name=mine"': RUN,
        """curl $H/studies -H "$J" -d '{"graph": 1, "priority": "time", "memory_limit": "4GiB","""
        """ "budget": "10min"}'""": RUN,
        "curl -N $H/studies/1/events": RUN,
        "curl $H/studies/1": RUN,
        'curl "$H/studies/1/trials?sort=throughput&limit=5"': RUN,
        "curl $H/studies/1/front": RUN,
        "curl -X POST $H/studies/1/stop": "the study has ended by then; tests/service/test_studies.py stops one",
        "curl -OJ $H/studies/1/tuned.json": RUN,
        """curl -X POST $H/studies/1/train -H "$J" -d '{"epochs": 50}'""": RUN,
        """curl $H/recommend -H "$J" -d '{"graph": 1, "priority": "memory"}'""": RUN,
        "a3gnn serve --database postgresql+psycopg://a3gnn@db.example/a3gnn --folder /var/lib/a3gnn": DATABASE,
    },
    "docs/design/tuning.md": {
        "a3gnn recommend --dataset graph.npz --priority throughput --memory-limit 4GiB --out runs/guess": RUN,
    },
    "docs/start/install.md": {
        "python3 -m venv .venv": INSTALLS,
        "source .venv/bin/activate": "enters it",
        "pip install torch --index-url https://download.pytorch.org/whl/cpu": INSTALLS,
        'pip install ".[plot]"': INSTALLS,
        "a3gnn doctor": ELSEWHERE,
    },
    "docs/start/your_graph.md": {
        "a3gnn graph info graph.npz": ELSEWHERE,
        "a3gnn tune --dataset graph.npz --memory-limit 4GiB --budget 10min --out runs/mine": ELSEWHERE,
        "a3gnn train runs/mine --out runs/trained": ELSEWHERE,
        "a3gnn predict runs/trained --dataset graph.npz --out predictions.npy": RUN,
    },
    "docs/start/tutorial.md": {
        "a3gnn doctor": RUN,
        "a3gnn graph info synthetic:": RUN,
        "a3gnn recommend --dataset synthetic: --memory-limit 1GiB": RUN,
        "a3gnn tune --dataset synthetic: --memory-limit 1GiB --budget 2min --out runs/tutorial": RUN,
        "a3gnn front runs/tutorial": RUN,
        "a3gnn report runs/tutorial": RUN,
        "a3gnn pick runs/tutorial --priority memory": RUN,
        "a3gnn train runs/tutorial --out runs/trained": RUN,
        "a3gnn predict runs/trained --dataset synthetic: --out predictions.npy": RUN,
    },
}

#: What the README makes, in this order, and other pages go on with: run once.
SHARED = (
    "a3gnn tune --dataset graph.npz --memory-limit 4GiB --budget 10min --out runs/mine",
    "a3gnn train runs/mine --out runs/trained",
)

#: What is put in the place of what a page shows, so that a command runs in seconds in a folder of the test's own.
SUBSTITUTIONS: Substitutions = (
    (re.compile(r"--budget \d+min"), "--budget 2s"),
    (re.compile(r"^(a3gnn tune (?!.*--budget).*)"), r"\1 --budget 2s"),
    (re.compile(r'"budget": "\d+min"'), '"budget": "2s"'),
    (re.compile(r"(?<![\w.])/(fast|data)/"), r"\1/"),
    (re.compile(r"nodes=20000000,degree=17"), "nodes=2000,degree=17"),
    (re.compile(r"synthetic: "), "synthetic:nodes=2000 "),
    (re.compile(r"benchmarks/results/"), '"$ROOT"/benchmarks/results/'),
    (re.compile(r"^curl "), "curl -sSf --max-time 120 "),
    (re.compile(r"--search space\.toml"), "--search layers=2,3"),  # the page shows the file
)
