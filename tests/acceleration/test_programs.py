"""Random programs around an accelerated model give what they give around PyG's: values, gradients, what hooks see.

A seed draws a model, what happens between its layers, hooks, what is changed between the call and the reading, how the
output is read and how derivatives are taken.
"""

from __future__ import annotations

import copy
import io
import pickle
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch_geometric.data import Data
from torch_geometric.nn import MLP, GATConv, GATv2Conv, GCNConv, GINConv, GraphConv, SAGEConv, TransformerConv

from a3gnn import Loader, accelerate
from tests.acceleration.graphs import random_edges, weights_of

WIDTH = 6


def sampled(fanouts: list[int]) -> Any:
    """Returns a mini-batch of a small graph."""
    edges = random_edges(300, 300, 1500)
    generator = torch.Generator().manual_seed(1)
    data = Data(torch.randn(300, WIDTH, generator=generator), edges)
    data.edge_attr = torch.rand(edges.shape[1], 2, generator=generator)
    return next(iter(Loader(data, fanouts, torch.arange(100), batch_size=12)))


BATCHES = [sampled([4, 3]), sampled([3, 2, 2])]

#: From a number of columns to as many; "attributes" and "weights" take those of edges.
CONVS: dict[str, Callable[[], nn.Module]] = {
    "sage": lambda: SAGEConv(WIDTH, WIDTH),
    "sage sum": lambda: SAGEConv(WIDTH, WIDTH, aggr="sum", normalize=True),
    "sage max": lambda: SAGEConv(WIDTH, WIDTH, aggr="max", project=True),
    "sage alone": lambda: SAGEConv(WIDTH, WIDTH, root_weight=False, bias=False),
    "graph": lambda: GraphConv(WIDTH, WIDTH, aggr="mean"),
    "graph weights": lambda: GraphConv(WIDTH, WIDTH),
    "gcn": lambda: GCNConv(WIDTH, WIDTH),
    "gcn weights": lambda: GCNConv(WIDTH, WIDTH, improved=True),
    "gcn plain": lambda: GCNConv(WIDTH, WIDTH, normalize=False, add_self_loops=False, bias=False),
    "gin": lambda: GINConv(MLP([WIDTH, 8, WIDTH], norm="batch_norm"), train_eps=True),
    "gin mean": lambda: GINConv(nn.Linear(WIDTH, WIDTH), aggr="mean", eps=0.3),
    "gat": lambda: GATConv(WIDTH, WIDTH // 2, heads=2, residual=True),
    "gat attributes": lambda: GATConv(WIDTH, WIDTH, heads=2, concat=False, edge_dim=2),
    "gatv2": lambda: GATv2Conv(WIDTH, WIDTH // 3, heads=3),
    "gatv2 attributes": lambda: GATv2Conv(WIDTH, WIDTH, edge_dim=2, share_weights=True),
    "transformer": lambda: TransformerConv(WIDTH, WIDTH // 2, heads=2, beta=True),
    "transformer attributes": lambda: TransformerConv(WIDTH, WIDTH, edge_dim=2, root_weight=False),
}


class Net(nn.Module):
    """Convolutions with drawn steps in between.

    Attributes:
        seen: What hooks got, each with a number. Torch promises an order only for those of equal numbers.
    """

    def __init__(self, draw: random.Random) -> None:
        super().__init__()
        depth = draw.randint(1, 4)
        self.kinds = draw.choices(list(CONVS), k=depth)
        self.steps = [draw.choices(list(STEPS), k=draw.randint(0, 3)) for _ in range(depth)]
        self.wraps = draw.choices([None, True, False], [6, 1, 1], k=depth)
        self.convs = nn.ModuleList(CONVS[kind]() for kind in self.kinds)
        self.norm, self.batch_norm, self.lin = nn.LayerNorm(WIDTH), nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.bias, self.given = nn.Parameter(torch.rand(WIDTH)), nn.Parameter(torch.rand(2) + 0.2)
        self.seen: list[tuple[int, Tensor]] = []

    def forward(self, x: Tensor, edges: Tensor, attributes: Tensor) -> Tensor:
        h = x
        for kind, conv, steps, wrap in zip(self.kinds, self.convs, self.steps, self.wraps, strict=True):
            given = attributes * self.given
            more = [given[:, 0]] if "weights" in kind else [given] if "attributes" in kind else []
            h = conv(h, edges, *more) if wrap is None else checkpoint(conv, h, edges, *more, use_reentrant=wrap)
            for step in steps:
                h = STEPS[step](self, h, x)
        return h


class Doubled(torch.autograd.Function):
    """A user's autograd function, whose backward pass is another function's."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * 3


def hooked(net: Net, h: Tensor) -> Tensor:
    if h.requires_grad:
        h.register_hook(lambda grad: net.seen.append((0, grad.detach().clone())))
        h.register_hook(lambda grad: grad * 1.5)
    return h


def changed(h: Tensor, function: Callable[[Tensor], Any]) -> Tensor:
    h = h * 1
    function(h)
    return h


def saved_on_disk(h: Tensor) -> Tensor:
    file = io.BytesIO()
    torch.save(h.detach(), file)
    file.seek(0)
    return torch.load(file)


def in_thread(function: Callable[[], Tensor]) -> Tensor:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


STEPS: dict[str, Callable[[Net, Tensor, Tensor], Tensor]] = {
    "relu": lambda net, h, x: h.relu(),
    "relu_": lambda net, h, x: changed(h, torch.relu_),
    "elu": lambda net, h, x: functional.elu(h),
    "tanh": lambda net, h, x: torch.tanh(h),
    "gelu": lambda net, h, x: functional.gelu(h),
    "dropout of 0": lambda net, h, x: functional.dropout(h, 0.0),
    "dropout in evaluation": lambda net, h, x: functional.dropout(h, 0.5, training=False),
    "layer norm": lambda net, h, x: net.norm(h),
    "batch norm": lambda net, h, x: net.batch_norm(h),
    "linear": lambda net, h, x: net.lin(h),
    "weight read twice": lambda net, h, x: functional.linear(h, net.lin.weight * 2, net.bias),
    "residual": lambda net, h, x: h + x,
    "product": lambda net, h, x: h * h.sigmoid(),
    "bias": lambda net, h, x: (h + net.bias) * 2 - 1,
    "quotient": lambda net, h, x: h / (1 + h.square()),
    "normalize": lambda net, h, x: functional.normalize(h + x, dim=-1),
    "columns": lambda net, h, x: torch.cat([h[:, 3:], h[:, :3].tanh()], dim=1),
    "joined": lambda net, h, x: net.lin(torch.cat([h, h.relu()], dim=1)[:, 3:-3]),
    "view": lambda net, h, x: h.view(len(h), 2, -1).flip(1).reshape(len(h), -1),
    "transposed": lambda net, h, x: h.t().sin().t(),
    "rows": lambda net, h, x: torch.cat([h[:5] * 2, h[5:]]),
    "permuted": lambda net, h, x: h[torch.arange(len(h)).flip(0)],
    "split": lambda net, h, x: torch.cat(h.split(7)),
    "unbound": lambda net, h, x: torch.stack(h.unbind(1), dim=1),
    "mean of all": lambda net, h, x: h - h.mean(dim=0),
    "softmax": lambda net, h, x: h.softmax(dim=-1) + h.log_softmax(dim=1),
    "+=": lambda net, h, x: changed(h, lambda h: h.add_(1)),
    "set rows": lambda net, h, x: changed(h, lambda h: h.__setitem__(slice(2, 9), 0.5)),
    "set a view": lambda net, h, x: changed(h, lambda h: h[:, 1].mul_(2)),
    "set a view again": lambda net, h, x: changed(
        h, lambda h: [view.mul_(2) for view in [h[:, 2:4]] for _ in range(2)]
    ),
    "set a view and all": lambda net, h, x: changed(h, lambda h: [h[:, 2].mul_(2), h.mul_(0.5), h[3].mul_(2)]),
    "set detached": lambda net, h, x: changed(h, lambda h: h.detach().mul_(0.5)),
    "set data": lambda net, h, x: changed(h, lambda h: h.data.mul_(0.5)),
    "set first rows": lambda net, h, x: changed(h, lambda h: h[:4].mul_(2)),
    "masked": lambda net, h, x: h.masked_fill(h > 0.5, 0.0),
    "where": lambda net, h, x: torch.where(h > 0, h, h * 0.1),
    "numpy": lambda net, h, x: h + float(h.detach().numpy().max()),
    "detached": lambda net, h, x: h + h.detach().tanh(),
    "own function": lambda net, h, x: Doubled.apply(h),
    "hooked": lambda net, h, x: hooked(net, h),
    "checkpoint": lambda net, h, x: checkpoint(net.lin, h, use_reentrant=False),
    "reentrant": lambda net, h, x: checkpoint(net.lin, h, use_reentrant=True),
    "copy": lambda net, h, x: h + copy.deepcopy(h.detach()),
    "pickle": lambda net, h, x: h + pickle.loads(pickle.dumps(h.detach())),
    "file": lambda net, h, x: h + saved_on_disk(h),
    "thread": lambda net, h, x: in_thread(lambda: h.sin()),
    "no_grad": lambda net, h, x: h * (1 + without_grad(lambda: h.tanh())),
    "clone": lambda net, h, x: h.clone(),
    "float": lambda net, h, x: h + h.float().double(),
    "einsum": lambda net, h, x: torch.einsum("ij,kj->ik", h, net.lin.weight),
    "matmul": lambda net, h, x: h @ net.lin.weight,
    "scatter": lambda net, h, x: h.index_add(0, torch.arange(3), h[-3:]),
    "saved in float32": lambda net, h, x: packed(lambda: h.sin()),
}


def without_grad(function: Callable[[], Tensor]) -> Tensor:
    with torch.no_grad():
        return function()


def packed(function: Callable[[], Tensor]) -> Tensor:
    with torch.autograd.graph.saved_tensors_hooks(lambda one: one.float(), lambda one: one.double()):
        return function()


HOOKS: dict[str, Callable[[Net, nn.Module], Any]] = {
    "forward": lambda net, conv: conv.register_forward_hook(lambda m, args, out: out * 2),
    "forward that reads": lambda net, conv: conv.register_forward_hook(
        lambda m, args, out: net.seen.append((0, out.detach().clone()))
    ),
    "before": lambda net, conv: conv.register_forward_pre_hook(lambda m, args: (args[0] + 1, *args[1:])),
    "backward": lambda net, conv: conv.register_full_backward_hook(
        lambda m, got, given: net.seen.extend((0, one.detach().clone()) for one in given)
    ),
    "backward that changes": lambda net, conv: conv.register_full_backward_hook(
        lambda m, got, given: (None if got[0] is None else got[0] * 2, *got[1:])
    ),
    "before backward": lambda net, conv: conv.register_full_backward_pre_hook(lambda m, given: (given[0] * 2,)),
    "of a parameter": lambda net, conv: [one.register_hook(lambda grad: grad * 2) for one in conv.parameters()],
    "after accumulation": lambda net, conv: [
        one.register_post_accumulate_grad_hook(lambda one, place=place: net.seen.append((place, one.grad.clone())))
        for place, one in enumerate(conv.parameters(), 1)
    ],
}

#: What changes the model between the call and the reading; `restore` undoes it before derivatives are taken.
CHANGES: dict[str, Callable[[Net], Any]] = {
    "values": lambda net: [one.data.mul_(3) for one in net.parameters()],
    "data": lambda net: [setattr(one, "data", one.data + 1) for one in net.parameters()],
    "state dict": lambda net: net.load_state_dict(
        {name: one + 1 for name, one in net.named_parameters()}, strict=False
    ),
    "assigned state dict": lambda net: net.load_state_dict(
        {name: one + 1 for name, one in net.named_parameters()}, strict=False, assign=True
    ),
    "copy_": lambda net: without_grad(lambda: [one.copy_(one + 1) for one in net.parameters()]),
    "mode": lambda net: net.eval(),
    "frozen": lambda net: net.requires_grad_(False),
    "another call": lambda net: net(BATCHES[0].x.double() + 1, BATCHES[0].edge_index, BATCHES[0].edge_attr.double()),
    "attributes": lambda net: [
        setattr(conv, name, 0.7) for conv in net.convs for name in ("negative_slope", "normalize") if name in vars(conv)
    ],
    "type": lambda net: net.float(),
}

READ: dict[str, Callable[[Tensor], Tensor]] = {
    "seeds": lambda out: out[:12],
    "all": lambda out: out,
    "mask": lambda out: out[torch.arange(len(out)) % 2 == 0],
    "last": lambda out: out[-5:],
    "narrow": lambda out: out.narrow(0, 0, 12),
    "seeds, then all": lambda out: torch.cat([out[:12], out]),
    "all, then seeds": lambda out: out.sum() + out[:12],
    "log_softmax": lambda out: functional.log_softmax(out, dim=-1)[:12],
    "flat": lambda out: out.view(-1)[::3],
    "rows": lambda out: torch.stack([*out][:20]),
    "select": lambda out: out.index_select(0, torch.arange(0, len(out), 3)),
    "gather": lambda out: out.gather(1, out.argmax(1, keepdim=True)),
    "thread": lambda out: in_thread(lambda: out[3:] * 2),
    "thread of seeds": lambda out: in_thread(lambda: out[:12] * 2),
    "copy": lambda out: out + copy.deepcopy(out.detach()),
    "pickle": lambda out: out + pickle.loads(pickle.dumps(out.detach())),
    "hidden rows": lambda out: out[:40],
    "einsum": lambda out: torch.einsum("ij,ij->i", out, out),
    "mapped": lambda out: torch.func.vmap(lambda row: row.sin())(out),
}

#: Takes the model and its arguments, and returns the output.
CALLS: dict[str, Callable[..., Tensor]] = {
    "plain": lambda net, *args: net(*args),
    "functional_call": lambda net, *args: torch.func.functional_call(
        net, {name: one * 2 for name, one in net.named_parameters()}, args
    ),
    "thread": lambda net, *args: in_thread(lambda: net(*args)),
    "checkpoint": lambda net, *args: checkpoint(net, *args, use_reentrant=False),
    "reentrant": lambda net, *args: checkpoint(net, *args, use_reentrant=True),
    "no_grad": lambda net, *args: without_grad(lambda: net(*args)),
    "vjp": lambda net, x, *args: torch.func.vjp(lambda x: net(x, *args), x)[0],
    "jvp": lambda net, x, *args: torch.func.jvp(lambda x: net(x, *args), (x,), (x * 2,))[1],
    "twice": lambda net, x, *args: net(x, *args) * net(x + 1, *args),
}

#: Changes after which torch's backward pass is refused, or loses gradients.
ENDS_BACKWARD = {"copy_", "state dict", "type"}


def restored(net: Net) -> Callable[[], None]:
    """Returns what gives `net` its present parameters and values again, without a trace."""
    kept = [
        (module, name, one, one.data, one.data.clone())
        for module in net.modules()
        for name, one in module._parameters.items()
        if one is not None
    ]

    def restore() -> None:
        net.requires_grad_()
        for module, name, one, data, values in kept:
            module._parameters[name] = one
            one.data = data
            one.data.copy_(values)

    return restore


def derivatives(draw: random.Random, net: Net, out: Tensor, read: Tensor, x: Tensor, is_reentrant: bool) -> list[Any]:
    """Returns derivatives of a function of `read`, and what remains in the parameters."""
    asked = [one for one in (x, *net.parameters()) if one.requires_grad]
    loss = (read.sin() * weights_of(read)).sum()
    way = draw.choice(["grad", "twice", "by output", "penalty", "jacobian", "backward", "two", "thread"])
    if is_reentrant:
        way = draw.choice(["backward", "two", "thread"])
    found: list[Any] = []
    if way == "backward":
        loss.backward()
    elif way == "thread":
        in_thread(loss.backward)
    elif way == "grad":
        found += torch.autograd.grad(loss, asked, allow_unused=True)
    elif way == "by output":
        out.retain_grad()
        found += torch.autograd.grad(loss, [out], retain_graph=True)
        loss.backward()
        found.append(out.grad)
    elif way == "two":
        loss.backward(retain_graph=True)
        (out * 0.5).sum().backward()
    elif way == "jacobian":
        for one in read.reshape(-1)[:3]:
            found += torch.autograd.grad(one, asked, retain_graph=True, allow_unused=True)
    else:
        first = torch.autograd.grad(loss, asked, create_graph=True, allow_unused=True)
        penalty = sum(one.square().sum() for one in first if one is not None)
        found += first
        if way == "penalty":
            (loss + penalty).backward()
        else:
            found += torch.autograd.grad(penalty, asked, allow_unused=True)
    return [*found, *(one.grad for one in asked)]


def run(net: Net, seed: int) -> list[Any]:
    """Returns all that the program of `seed` can see."""
    draw = random.Random(seed)
    batch = draw.choice(BATCHES)
    edges = batch.edge_index.clone() if draw.random() < 0.1 else batch.edge_index
    x = batch.x.double().requires_grad_(draw.random() < 0.7)
    if draw.random() < 0.2:
        net.eval()
    for conv in net.convs:
        if draw.random() < 0.2:
            HOOKS[draw.choice(list(HOOKS))](net, conv)
    call = draw.choice(["plain"] * 20 + list(CALLS))
    out = CALLS[call](net, x, edges, batch.edge_attr.double())
    change = draw.choice([None, None, *CHANGES])
    restore = restored(net)
    if change is not None:
        CHANGES[change](net)
    read = READ[draw.choice(list(READ))](out)
    found = [read.clone()]
    restore()
    is_recomputed = call in ("checkpoint", "reentrant") or any(wrap is not None for wrap in net.wraps)
    ends = change in ENDS_BACKWARD or (change == "attributes" and is_recomputed)  # by other attributes
    if read.requires_grad and not ends:
        is_reentrant = call == "reentrant" or True in net.wraps or any("reentrant" in steps for steps in net.steps)
        found += derivatives(draw, net, out, read, x, is_reentrant)
    seen = sorted(net.seen, key=lambda one: one[0])
    return [*found, out.clone(), *(one for _, one in seen), *net.buffers()]


def outcome(net: Net, seed: int) -> Any:
    """Returns what `run` returns, or its error."""
    try:
        return run(net, seed)
    except RuntimeError as error:
        return error


def compare(seed: int) -> bool:
    """Checks that the program of `seed` sees the same around an accelerated model as around PyG's.

    Returns:
        Whether there was something to compare: neither torch nor the accelerated model refused the program.
    """
    torch.manual_seed(seed)
    plain = Net(random.Random(seed)).double()
    may_be_refused = any(step == "hooked" or step.startswith("set ") for steps in plain.steps for step in steps)
    nearly = copy.deepcopy(plain)
    for one in nearly.parameters():
        one.data *= 1 + 1e-15 * torch.randn_like(one)
    ours, theirs = (outcome(net, seed) for net in (accelerate(copy.deepcopy(plain)), plain))
    if isinstance(theirs, RuntimeError):
        assert isinstance(ours, RuntimeError), theirs
    elif isinstance(ours, RuntimeError):
        assert may_be_refused, ours
        assert "call .clone() on the" in str(ours)
    else:
        try:
            assert_all_same(ours, theirs)
        except AssertionError:  # rounding may decide, as that of the parameters then does
            assert_all_same(ours, theirs, run(nearly, seed))
        return True
    return False


def assert_all_same(ours: list[Any], theirs: list[Any], nearly: list[Any] | None = None) -> None:
    """Checks what two runs have seen; `nearly` is what a run with rounded parameters has seen."""
    largest = max(1.0, *(float(one.nan_to_num(0, 0, 0).abs().max()) for one in theirs if one is not None))
    for one, other, third in zip(ours, theirs, nearly or theirs, strict=True):
        if other is None:
            assert one is None or not one.any()
            continue
        one = torch.zeros_like(other) if one is None else one
        least = 1e-12 * largest  # the gradient of a bias before a batch norm is 0 up to the rounding of others
        scale = max(1.0, float(other.detach().nan_to_num(0, 0, 0).abs().max()))
        allowed = max(least, min(1e-10 * scale, 1e-6 * largest)) + 100 * float((third - other).detach().abs().max())
        torch.testing.assert_close(one.detach(), other.detach(), rtol=0, atol=allowed, equal_nan=True)


@pytest.mark.filterwarnings("ignore")  # torch's, about checkpoints and hooks
def test_programs_see_the_same() -> None:
    assert sum(compare(seed) for seed in range(40)) >= 32


@pytest.mark.weekly
@pytest.mark.filterwarnings("ignore")
def test_many_programs_see_the_same() -> None:
    assert sum(compare(seed) for seed in range(40, 2932)) > 2512
