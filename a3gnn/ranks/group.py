"""`TorchRanks` and `GroupPeers`: ranks and peers in the default group of torch.distributed."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from a3gnn.errors import DeviceError, PeerLostError, UsageError
from a3gnn.launch import Launch

#: How long a rank waits for a silent one, gloo's own default. It is long, because setup goes rank by rank and may
#: partition a graph, make a table or compile.
_PATIENCE = timedelta(minutes=30)

#: Matches gloo's messages about closed, broken or silent connections; gloo raises plain RuntimeErrors.
_LOST = re.compile("connect|timed? ?out|closed|peer|socket|broken pipe|readv|writev|read error|write error", re.I)


@contextmanager
def joined(launch: Launch) -> Generator[TorchRanks]:
    """Yields this process's ranks once all of them have joined; uses gloo on the host, and also NCCL with GPUs.

    An existing process group is used and not destroyed.

    Raises:
        UsageError: This build of torch has no torch.distributed, or an existing group doesn't fit `launch`.
        DeviceError: The machine has GPUs, but fewer than ranks.
    """
    from torch import distributed

    if not distributed.is_available():
        raise UsageError("several ranks need torch.distributed, which this build of torch lacks; train in one process")
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if 0 < gpus < launch.local_size:
        raise DeviceError(
            f"each rank must have a GPU of its own, got {launch.local_size} ranks and {gpus} GPUs on this machine; "
            f"use --nproc-per-node {gpus}, or hide the GPUs with CUDA_VISIBLE_DEVICES="
        )
    if gpus:
        torch.cuda.set_device(launch.local_rank)
    mine = not distributed.is_initialized()
    if mine:
        backend = "cpu:gloo,cuda:nccl" if gpus else "gloo"
        with _told(launch.rank):
            distributed.init_process_group(backend, timeout=_PATIENCE)
    else:
        _check_group(launch, ["cpu", "cuda"] if gpus else ["cpu"])
    try:
        yield TorchRanks(launch)
    finally:
        if mine:
            distributed.destroy_process_group()


def _check_group(launch: Launch, devices: list[str]) -> None:
    """Raises a `UsageError` unless the existing group has the ranks of `launch` and backends for `devices`."""
    from torch import distributed

    rank, size, backends = distributed.get_rank(), distributed.get_world_size(), distributed.get_backend_config()
    if (rank, size) != (launch.rank, launch.size):
        raise UsageError(
            f"the existing process group must have torchrun's rank {launch.rank} of {launch.size}, got rank {rank} "
            f"of {size}; destroy it before training"
        )
    if lacking := [device for device in devices if f"{device}:" not in backends]:
        raise UsageError(
            f"the existing process group must have a backend for {' and '.join(lacking)}, got {backends}. Create it "
            "with cpu:gloo,cuda:nccl (gloo without GPUs), or let training create it"
        )


class GroupPeers:
    """`Peers` in torch.distributed's default group, which the caller may have made.

    Args:
        rank: This process's rank, for errors.

    Attributes:
        rank: This process's rank.
    """

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def sum(self, values: Tensor) -> None:
        """Overwrites `values` by their sum; see `Peers.sum`."""
        from torch import distributed

        with _told(self.rank):
            distributed.all_reduce(values)


class TorchRanks(GroupPeers):
    """`Ranks` in torch.distributed's default group.

    Args:
        launch: Rank and number of ranks of this process.

    Attributes:
        rank: This process's rank.
        size: Number of ranks.
        launch: As given.
    """

    def __init__(self, launch: Launch) -> None:
        super().__init__(launch.rank)
        self.size, self.launch = launch.size, launch

    def broadcast(self, values: Tensor, source: int) -> None:
        """Overwrites `values` by the `values` of `source`; see `Ranks.broadcast`."""
        from torch import distributed

        with _told(self.rank):
            distributed.broadcast(values, source)

    def swap(self, pieces: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
        """Sends a piece to each rank, and returns the pieces from each rank; see `Ranks.swap`."""
        from torch import distributed

        sent, received = torch.cat(list(pieces)), pieces[0].new_empty(sum(sizes))
        with _told(self.rank):
            distributed.all_to_all_single(received, sent, list(sizes), [len(piece) for piece in pieces])
        return list(torch.split(received, list(sizes)))

    def gathered(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """Returns the arrays of all ranks on rank 0; see `Ranks.gathered`."""
        from torch import distributed

        lengths = torch.zeros(self.size, dtype=torch.int64)
        lengths[self.rank] = len(values)
        self.sum(lengths)
        rest = values.shape[1:]
        own = torch.from_numpy(np.ascontiguousarray(values).reshape(-1).view(np.uint8))
        with _told(self.rank):
            if self.rank:
                distributed.send(own, 0)
                return []
            found = [values]
            for source, length in enumerate(lengths.tolist()[1:], 1):
                other = np.empty((length, *rest), dtype=values.dtype)
                distributed.recv(torch.from_numpy(other.reshape(-1).view(np.uint8)), source)
                found.append(other)
        return found

    def bytes_of_first(self, content: bytes) -> bytes:
        """Returns the `content` of rank 0; other ranks' `content` is ignored."""
        size = torch.tensor([len(content)])
        self.broadcast(size, 0)
        sent = torch.zeros(int(size), dtype=torch.uint8)
        if not self.rank:
            sent[:] = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        self.broadcast(sent, 0)
        return sent.numpy().tobytes()

    @contextmanager
    def first_alone(self) -> Iterator[None]:
        """Runs its body on the first rank of each machine, and then on the others.

        The first rank thus makes files such as compiled kernels and partitions, and the others find them.
        """
        first = not self.launch.local_rank
        if not first:
            self._wait()
        yield
        if first:
            self._wait()
        self._wait()

    def claim(self, name: str) -> bool:
        """Returns whether this rank is the first to call this with `name`; True only on rank 0 if the store is gone."""
        from torch.distributed import distributed_c10d

        try:
            return int(distributed_c10d._get_default_store().add(f"a3gnn/{name}", 1)) == 1
        except RuntimeError:  # the store was in a process that has ended
            return not self.rank

    def _wait(self) -> None:
        self.sum(torch.zeros(1))


@contextmanager
def _told(rank: int) -> Iterator[None]:
    """Raises a `PeerLostError` if a call of torch.distributed fails because another rank has ended or is silent."""
    from torch import distributed

    try:
        yield
    except RuntimeError as error:
        if not (isinstance(error, distributed.DistError) or _LOST.search(str(error))):
            raise
        # Drops the place in gloo's sources at the start, and the advice at the end.
        reason = re.sub(r"^\[[^]]*\]\s*", "", str(error).strip()).partition(". ")[0] or type(error).__name__
        raise PeerLostError(
            f"every rank must respond until the end, but rank {rank} lost another one ({reason}); see the output of "
            "that rank or of torchrun"
        ) from error
