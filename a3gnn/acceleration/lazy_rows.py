"""`LazyRows`: a convolution's output that computes only the rows that are read.

A mini-batch's loss reads the seeds' outputs, which come first. They depend on the first rows of each layer before. So
`model(x, edge_index)[:batch_size]` computes a few rows of the last layer and some more of the one before. Reading
anything else computes all rows, so that each result is PyG's. Only functions that compute a row from the same row of
their inputs wait, such as ReLU and dropout. A batch norm in training reads all rows.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_leaves, tree_map_only

from a3gnn.acceleration.dropping import dropped
from a3gnn.models.layers.activation import Dropout


class Node(ABC):
    """A matrix that is computed by its first rows.

    Attributes:
        shape: Rows and columns.
        dtype: Type of the entries.
        inputs: What it is computed from: nodes, or tensors.
        requires_grad: Whether the rows have a gradient.
        is_read: Whether a user has read rows, so that a change in place must change them.
    """

    def __init__(self, shape: tuple[int, int], dtype: torch.dtype, inputs: Iterable[Any], held: Iterable[Any]) -> None:
        self.shape = shape
        self.dtype = dtype
        self.inputs = [one.node if isinstance(one, LazyRows) else one for one in inputs]
        nodes = [one for one in self.inputs if isinstance(one, Node)]
        tensors = [one for one in [*self.inputs, *held] if isinstance(one, Tensor)]
        needed = any(one.requires_grad for one in nodes) or any(one.requires_grad for one in tensors)
        self.requires_grad: bool = torch.is_grad_enabled() and needed
        self._held = [(one, one._version) for one in tensors if not one.is_inference()]  # those have no version
        self._grad = torch.is_grad_enabled()
        self._autocast = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
        self.is_read = False
        self._done: Tensor | None = None
        self._version = 0
        self._given: list[weakref.ref[Tensor]] = []
        self._readers: weakref.WeakSet[Node] = weakref.WeakSet()
        for node in nodes:
            node._readers.add(self)

    def first(self, rows: int) -> Tensor:
        """Returns the first `rows` rows, for another node.

        Raises:
            RuntimeError: A tensor that they depend on was changed in place since the call.
        """
        if self._done is None or len(self._done) < rows:
            if any(one._version != version for one, version in self._held):
                raise RuntimeError(
                    "rows of an accelerated model's output must be read before its inputs or parameters are changed "
                    "in place; read them before, or call .clone() on the output"
                )
            on, dtype = self._autocast
            with (
                torch.inference_mode(False),
                torch.set_grad_enabled(self._grad),
                torch.autocast("cpu", dtype, enabled=on),
            ):
                found = self._compute(rows)
                if self._done is not None and self._done._version != self._version:  # a user changed these rows
                    found = torch.cat([self._done, found[len(self._done) :]])
            self._done, self._version = found, found._version
        return self._done if len(self._done) == rows else self._done[:rows]

    def read(self, rows: int) -> Tensor:
        """Returns the first `rows` rows, for the user; see `first`."""
        self.is_read = True
        found = self.first(rows)
        if rows == self.shape[0]:
            return found
        found = found[:]
        self._given.append(weakref.ref(found))
        return found

    @property
    def is_computed(self) -> bool:
        """Whether some rows are computed."""
        return self._done is not None

    def whole(self) -> Tensor:
        """Returns all rows; see `first`."""
        return self.first(self.shape[0])

    def before_change(self) -> None:
        """Computes all rows of this node and of its readers, because its rows are about to be changed in place.

        Raises:
            RuntimeError: The user still has some of the rows, and would not see the change.
        """
        if any(one() is not None for one in self._given):
            raise RuntimeError(
                "an accelerated model's rows must not be changed in place while a slice of them is in use; call "
                ".clone() on the output first"
            )
        for reader in list(self._readers):
            reader.before_change()
        self.whole()

    def continue_backward(self, grad: Tensor) -> None:
        """Computes the gradients by everything that the rows depend on."""
        torch.autograd.backward(self.whole(), grad, retain_graph=True)

    @abstractmethod
    def _compute(self, rows: int) -> Tensor:
        """Returns the first `rows` rows."""


class RowNode(Node):
    """A function of the same rows of other matrices.

    Args:
        function: Takes and returns the first rows, of any number.
        inputs: The matrices: `LazyRows`, or tensors with as many rows.
        width: Columns of the result.
        dtype: Type of the result.
        held: Other tensors that `function` reads.
    """

    def __init__(
        self,
        function: Callable[..., Tensor],
        inputs: list[Any],
        width: int,
        dtype: torch.dtype,
        held: Iterable[Any] = (),
    ) -> None:
        super().__init__((inputs[0].shape[0], width), dtype, inputs, held)
        self._function = function

    def _compute(self, rows: int) -> Tensor:
        return self._function(*(first_rows(one, rows) for one in self.inputs))


class ReluNode(RowNode):
    """The ReLU of rows."""

    def __init__(self, x: LazyRows) -> None:
        super().__init__(torch.relu, [x], x.shape[1], x.dtype)


class DropoutNode(Node):
    """Dropout, which drops the same entries each time that more rows are read. It includes a ReLU that nobody read."""

    def __init__(self, x: LazyRows, probability: float) -> None:
        super().__init__(x.node.shape, x.dtype, [x], ())
        self._dropout = Dropout.of(probability, int(torch.randint(2**62, ())), "rows")

    def _compute(self, rows: int) -> Tensor:
        source = self.inputs[0]
        rectified = isinstance(source, ReluNode) and not source.is_computed
        if rectified:
            source = source.inputs[0]
        return dropped(first_rows(source, rows), self._dropout, rectified=rectified)


class LazyRows(Tensor):
    """A tensor of the shape of `node`, whose rows are computed when they are read."""

    node: Node

    @staticmethod
    def __new__(cls, node: Node) -> LazyRows:
        """Returns the tensor of `node`."""
        make = Tensor._make_wrapper_subclass
        made: LazyRows = make(cls, node.shape, dtype=node.dtype, requires_grad=node.requires_grad)
        made.node = node
        if node.requires_grad:
            # C++ code that never asks for rows, such as autograd functions of users, returns a gradient by this leaf.
            with torch._C.DisableTorchFunctionSubclass():
                made.register_hook(node.continue_backward)  # type: ignore[no-untyped-call]
        return made

    def __init__(self, node: Node) -> None: ...

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Applies `func` to the rows that it needs."""
        kwargs = kwargs or {}
        if func in _METADATA:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        lazy = [one for one in tree_leaves((args, kwargs)) if isinstance(one, LazyRows)]
        rule = _RULES.get(func)
        # Without gradients, this may be the forward pass of a user's autograd function, whose results must not wait.
        recorded = torch.is_grad_enabled() or not any(one.node.requires_grad for one in lazy)
        if rule is not None and recorded and may_wait():
            found = rule(func, *args, **kwargs)
            if found is not NotImplemented:
                return found
        if _changes_in_place(func, kwargs):
            for one in lazy:
                one.node.before_change()
        args, kwargs = tree_map_only(LazyRows, lambda one: one.node.read(one.node.shape[0]), (args, kwargs))
        return func(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Applies `func`, which came from C++ code, to all rows."""
        args, kwargs = tree_map_only(LazyRows, lambda one: one.node.read(one.node.shape[0]), (args, kwargs or {}))
        return func(*args, **kwargs)


def may_wait() -> bool:
    """Returns whether outputs may be `LazyRows`, which have no autograd graph before they are read.

    DDP finds unused parameters by the graph of its outputs.
    """
    ddp = DistributedDataParallel._get_active_ddp_module()  # type: ignore[no-untyped-call]
    return ddp is None or not ddp.find_unused_parameters


def first_rows(one: Node | Tensor, rows: int) -> Tensor:
    """Returns the first `rows` rows of `one`."""
    if isinstance(one, Node):
        return one.first(rows)
    return one if len(one) == rows else one[:rows]


def computed(x: Any) -> Any:
    """Returns `x`, as a tensor with all rows if it is lazy."""
    return x.node.whole() if isinstance(x, LazyRows) else x


def _changes_in_place(func: Any, kwargs: dict[str, Any]) -> bool:
    name = getattr(func, "__name__", "")
    changes = name.endswith("_") and not name.endswith("__")
    return changes or name in _IN_PLACE or "out" in kwargs or bool(kwargs.get("inplace"))


def _entrywise(func: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    """A function of each entry, whose other arguments are numbers."""
    kwargs = dict(kwargs)
    in_place = kwargs.pop("inplace", False)
    if not _is_alone(x, args, kwargs):
        return NotImplemented
    if func in _RELUS:
        return _placed(ReluNode(x), x, in_place)
    made = RowNode(lambda rows: func(rows, *args, **kwargs), [x], x.shape[1], x.dtype)
    return _placed(made, x, in_place)


def _entrywise_in_place(func: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    """As `_entrywise`, in place: `x` stands for the result from now on."""
    return _entrywise(_OUT_OF_PLACE[func], x, *args, **kwargs, inplace=True)


def _row_wise(func: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    """A function of each row that takes `dim`, such as a softmax."""
    dim = kwargs.get("dim", args[0] if args else None)
    if not _is_alone(x, args, kwargs) or dim not in (1, -1) or kwargs.get("dtype") is not None:
        return NotImplemented
    return LazyRows(RowNode(lambda rows: func(rows, *args, **kwargs), [x], x.shape[1], x.dtype))


def _normalize(func: Any, x: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Any = None) -> Any:
    if not isinstance(x, LazyRows) or dim not in (1, -1) or out is not None:
        return NotImplemented
    return LazyRows(RowNode(lambda rows: func(rows, p, dim, eps), [x], x.shape[1], x.dtype))


def _dropout(func: Any, x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    if not isinstance(x, LazyRows) or not 0 <= p < 1:
        return NotImplemented
    if not training or p == 0:
        return x
    return _placed(DropoutNode(x, p), x, inplace)


def _linear(func: Any, x: Any, weight: Any, bias: Any = None) -> Any:
    if not isinstance(x, LazyRows) or isinstance(weight, LazyRows) or isinstance(bias, LazyRows):
        return NotImplemented
    on = torch.is_autocast_enabled("cpu")
    dtype = torch.get_autocast_dtype("cpu") if on else x.dtype
    held = [one for one in (weight, bias) if one is not None]
    if weight.ndim != 2 or weight.shape[1] != x.shape[1] or (not on and any(one.dtype is not dtype for one in held)):
        return NotImplemented  # torch raises the error
    return LazyRows(RowNode(lambda rows: func(rows, weight, bias), [x], weight.shape[0], dtype, held))


def _norm(func: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    """A layer norm, or a batch norm by running statistics."""
    if torch.is_autocast_enabled("cpu") or not isinstance(x, LazyRows):
        return NotImplemented
    if func is torch.nn.functional.batch_norm:
        names = ("running_mean", "running_var", "weight", "bias", "training")
        training = dict(zip(names, args, strict=False)).get("training", kwargs.get("training", False))
        if training:
            return NotImplemented
    elif list(kwargs.get("normalized_shape", args[0] if args else ())) != [x.shape[1]]:
        return NotImplemented
    held = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
    if any(type(one) is LazyRows or one.dtype is not x.dtype for one in held):
        return NotImplemented
    return LazyRows(RowNode(lambda rows: func(rows, *args, **kwargs), [x], x.shape[1], x.dtype, held))


def _arithmetic(func: Any, left: Any, right: Any, **kwargs: Any) -> Any:
    """A sum, difference, product or quotient with rows, with one row for all, or with a number."""
    if kwargs:
        return NotImplemented
    lazy = left if isinstance(left, LazyRows) else right
    sides = (left, right)
    aligned = [isinstance(one, Tensor) and one.shape == lazy.shape for one in sides]
    for one, is_aligned in zip(sides, aligned, strict=True):
        fits = is_aligned or (isinstance(one, Tensor) and one.shape == lazy.shape[1:]) or isinstance(one, int | float)
        if not fits or (isinstance(one, Tensor) and one.dtype is not lazy.dtype):
            return NotImplemented

    def function(*rows: Tensor) -> Any:
        found = iter(rows)
        return func(*(next(found) if is_aligned else one for one, is_aligned in zip(sides, aligned, strict=True)))

    inputs = [one for one, is_aligned in zip(sides, aligned, strict=True) if is_aligned]
    held = [one for one, is_aligned in zip(sides, aligned, strict=True) if not is_aligned]
    return LazyRows(RowNode(function, inputs, lazy.shape[1], lazy.dtype, held))


def _cat(func: Any, tensors: Any, dim: int = 0, **kwargs: Any) -> Any:
    if kwargs or dim not in (1, -1):
        return NotImplemented
    first = tensors[0]
    for one in tensors:
        if not isinstance(one, Tensor) or one.ndim != 2 or len(one) != len(first) or one.dtype is not first.dtype:
            return NotImplemented
    width = sum(one.shape[1] for one in tensors)
    return LazyRows(RowNode(lambda *rows: func(rows, dim=1), list(tensors), width, first.dtype))


def _item(func: Any, x: Any, place: Any) -> Any:
    """`x[:rows]`, which is computed at once."""
    whole = isinstance(place, slice) and place.start in (None, 0) and place.step in (None, 1)
    if not isinstance(x, LazyRows) or not whole or not isinstance(place.stop, int) or place.stop < 0:
        return NotImplemented
    return x.node.read(min(place.stop, x.shape[0]))


def _narrow(func: Any, x: Any, dim: Any, start: Any, length: Any) -> Any:
    fits = isinstance(x, LazyRows) and dim == 0 and type(start) is int and start == 0 and type(length) is int
    return x.node.read(length) if fits and 0 <= length <= x.shape[0] else NotImplemented


def _widened(func: Any, x: Any) -> Any:
    """`x.float()`."""
    return x if x.dtype is torch.float32 else LazyRows(RowNode(func, [x], x.shape[1], torch.float32))


def _itself(func: Any, x: Any) -> Any:
    return x


def _is_alone(x: Any, args: Any, kwargs: Any) -> bool:
    """Returns whether `x` is lazy and no other argument is a tensor."""
    return isinstance(x, LazyRows) and not any(isinstance(one, Tensor) for one in tree_leaves((args, kwargs)))


def _placed(node: Node, x: LazyRows, in_place: bool) -> Any:
    """Returns the result `node` of a function of `x`, which is `x` itself for a function in place."""
    if not in_place:
        return LazyRows(node)
    if x.node.is_read:
        return NotImplemented
    x.node = node
    return x


_F = torch.nn.functional
_RELUS = {torch.relu, Tensor.relu, _F.relu}
_METADATA = {
    Tensor.shape.__get__,  # type: ignore[attr-defined]
    Tensor.dtype.__get__,  # type: ignore[attr-defined]
    Tensor.device.__get__,
    Tensor.layout.__get__,  # type: ignore[attr-defined]
    Tensor.ndim.__get__,  # type: ignore[attr-defined]
    Tensor.is_cuda.__get__,  # type: ignore[attr-defined]
    Tensor.is_sparse.__get__,  # type: ignore[attr-defined]
    Tensor.is_quantized.__get__,  # type: ignore[attr-defined]
    Tensor.requires_grad.__get__,  # type: ignore[attr-defined]
    Tensor.is_inference,
    Tensor.is_floating_point,
    torch.is_floating_point,
    Tensor.size,
    Tensor.dim,
    Tensor.numel,
    Tensor.__len__,
}
_IN_PLACE = {
    "__iadd__",
    "__isub__",
    "__imul__",
    "__itruediv__",
    "__ifloordiv__",
    "__imod__",
    "__ipow__",
    "__iand__",
    "__ior__",
    "__ixor__",
    "__setitem__",
    "__set__",
}
_OUT_OF_PLACE = {
    torch.relu_: torch.relu,
    Tensor.relu_: torch.relu,
    _F.elu_: _F.elu,
    _F.leaky_relu_: _F.leaky_relu,
}
_RULES: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys(
        (
            torch.relu,
            Tensor.relu,
            _F.relu,
            _F.elu,
            _F.leaky_relu,
            _F.gelu,
            _F.silu,
            _F.selu,
            _F.tanh,
            torch.tanh,
            Tensor.tanh,
            torch.sigmoid,
            Tensor.sigmoid,
        ),
        _entrywise,
    ),
    **dict.fromkeys(_OUT_OF_PLACE, _entrywise_in_place),
    **dict.fromkeys(
        (torch.log_softmax, Tensor.log_softmax, _F.log_softmax, torch.softmax, Tensor.softmax, _F.softmax), _row_wise
    ),
    **dict.fromkeys((_F.layer_norm, _F.batch_norm), _norm),
    **dict.fromkeys(
        (
            torch.add,
            Tensor.add,
            Tensor.__add__,
            Tensor.__radd__,
            torch.sub,
            Tensor.sub,
            Tensor.__sub__,
            torch.mul,
            Tensor.mul,
            Tensor.__mul__,
            Tensor.__rmul__,
            torch.div,
            Tensor.div,
            Tensor.__truediv__,
        ),
        _arithmetic,
    ),
    **dict.fromkeys((torch.cat, torch.concat), _cat),
    _F.normalize: _normalize,
    _F.dropout: _dropout,
    _F.linear: _linear,
    Tensor.__getitem__: _item,
    Tensor.narrow: _narrow,
    torch.narrow: _narrow,
    Tensor.float: _widened,
    Tensor.contiguous: _itself,
}
