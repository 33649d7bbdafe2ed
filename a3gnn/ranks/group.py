"""`TorchRanks`: the ranks of torch.distributed, and `GroupPeers`, who train together in its default group."""

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

#: How long a rank waits for another that neither answers nor ends. Setting up goes rank by rank, and may partition a
#: graph, make a table or compile meanwhile: gloo's own default.
_PATIENCE = timedelta(minutes=30)

#: What gloo, whose errors are plain RuntimeErrors, says of connections that are closed, broken, or silent.
_LOST = re.compile("connect|timed? ?out|closed|peer|socket|broken pipe|readv|writev|read error|write error", re.I)


@contextmanager
def joined(launch: Launch) -> Generator[TorchRanks]:
    """Yields this process's group, once all ranks have joined it; gloo on the host, NCCL beside it on GPUs.

    A group that the process has made already is used, and left as it is.

    Raises:
        UsageError: This build of torch has no torch.distributed, or the group that is there is not of these ranks.
        DeviceError: There are GPUs, but fewer than ranks on this machine.
    """
    from torch import distributed

    if not distributed.is_available():
        raise UsageError("several ranks need torch.distributed, which this build of torch lacks; train in one process")
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if 0 < gpus < launch.local_size:
        raise DeviceError(
            f"each rank must have a GPU of its own, got {launch.local_size} ranks and {gpus} GPUs on this machine; use "
            f"--nproc-per-node {gpus}, or hide them by CUDA_VISIBLE_DEVICES="
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
    """Does nothing where the group that is there is that of `launch`, and has backends for `devices`."""
    from torch import distributed

    rank, size, backends = distributed.get_rank(), distributed.get_world_size(), distributed.get_backend_config()
    if (rank, size) != (launch.rank, launch.size):
        raise UsageError(
            f"the process group that is there must be that of torchrun, rank {launch.rank} of {launch.size}, got rank "
            f"{rank} of {size}; destroy it before training"
        )
    if lacking := [device for device in devices if f"{device}:" not in backends]:
        raise UsageError(
            f"the process group that is there must have a backend for {' and '.join(lacking)}, got {backends}; make it "
            "with cpu:gloo,cuda:nccl, or gloo without GPUs, or leave it to training"
        )


class GroupPeers:
    """See `Peers`: those of torch.distributed's default group, however it was made.

    Args:
        rank: This one's, for errors.

    Attributes:
        rank: As given.
    """

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def sum(self, values: Tensor) -> None:
        """Overwrites `values` by their sum; see `Peers.sum`."""
        from torch import distributed

        with _told(self.rank):
            distributed.all_reduce(values)


class TorchRanks(GroupPeers):
    """See `Ranks`.

    Args:
        launch: Which process this is.

    Attributes:
        rank: As `launch` has it.
        size: Likewise.
        launch: As given.
    """

    def __init__(self, launch: Launch) -> None:
        super().__init__(launch.rank)
        self.size, self.launch = launch.size, launch

    def broadcast(self, values: Tensor, source: int) -> None:
        """Overwrites `values` by those of `source`; see `Ranks.broadcast`."""
        from torch import distributed

        with _told(self.rank):
            distributed.broadcast(values, source)

    def swap(self, pieces: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
        """Sends a piece to each rank, and returns what each has sent here; see `Ranks.swap`."""
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
        """Returns the `content` of rank 0; what others give is not read."""
        size = torch.tensor([len(content)])
        self.broadcast(size, 0)
        sent = torch.zeros(int(size), dtype=torch.uint8)
        if not self.rank:
            sent[:] = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        self.broadcast(sent, 0)
        return sent.numpy().tobytes()

    @contextmanager
    def first_alone(self) -> Iterator[None]:
        """Lets the first rank of each machine through what is within it, and then the others.

        So what is made once per machine, such as compiled kernels and partitions, is made once, and then found.
        """
        first = not self.launch.local_rank
        if not first:
            self._wait()
        yield
        if first:
            self._wait()
        self._wait()

    def claim(self, name: str) -> bool:
        """Returns whether this rank is the first to call this with `name`; False where nobody is left to tell."""
        from torch.distributed import distributed_c10d

        try:
            return int(distributed_c10d._get_default_store().add(f"a3gnn/{name}", 1)) == 1
        except RuntimeError:  # the store was in a process that has ended
            return not self.rank

    def _wait(self) -> None:
        self.sum(torch.zeros(1))


@contextmanager
def _told(rank: int) -> Iterator[None]:
    """Raises a `PeerLostError` where a call of torch.distributed fails because another rank has gone or is silent."""
    from torch import distributed

    try:
        yield
    except RuntimeError as error:
        if not (isinstance(error, distributed.DistError) or _LOST.search(str(error))):
            raise
        # Without the place in gloo's sources that it begins with, and the advice that follows.
        reason = re.sub(r"^\[[^]]*\]\s*", "", str(error).strip()).partition(". ")[0] or type(error).__name__
        raise PeerLostError(
            f"every rank must answer until the end, but rank {rank} lost another one ({reason}); that one says why, or "
            "torchrun does"
        ) from error
