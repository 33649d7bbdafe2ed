# The service with the CPU build of PyTorch: docs/howto/deploy.md.
FROM python:3.11-slim AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY a3gnn a3gnn
COPY surrogate surrogate
COPY envs envs
COPY profiles profiles
# The index of PyTorch's CPU builds; without it pip installs the CUDA build.
ARG PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
RUN python -m venv /opt/a3gnn \
    && /opt/a3gnn/bin/pip install --no-cache-dir -c constraints.txt '.[serve,postgres,plot]'

FROM python:3.11-slim
# OpenMP of xgboost and scikit-learn.
RUN apt-get update -q \
    && apt-get install -y -q --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 a3gnn \
    && install -d -o a3gnn /data /graphs
COPY --from=build /opt/a3gnn /opt/a3gnn
USER a3gnn
ENV PATH=/opt/a3gnn/bin:$PATH A3GNN_CACHE=/data/cache NUMBA_CACHE_DIR=/data/kernels
VOLUME /data
EXPOSE 8642
HEALTHCHECK --start-period=60s CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8642/livez')"]
# SIGTERM ends it within 12 seconds. The shell is replaced, so that the signal reaches the server.
CMD ["sh", "-c", "A3GNN_TOKEN=\"$(cat /run/secrets/a3gnn_token)\" exec a3gnn serve --host 0.0.0.0 --folder /data/service --data-root /graphs --access-log ${A3GNN_SERVE_OPTIONS}"]
