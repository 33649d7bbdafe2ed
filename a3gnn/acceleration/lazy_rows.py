"""`LazyRows`: the output of a layer of a mini-batch, of which only the first rows are computed at once.

A mini-batch's loss reads the seeds' outputs, which come first. They depend on the first rows of each layer before. So
a layer computes the rows that later layers need, by the layer's own graph of torch's operators, and functions of a row
such as ReLU and dropout compute as many. The others wait. Whatever else reads the output gets all rows, computed from
the values of the call: parameters are copied then, and larger inputs must not have changed since. The output is a
tensor of torch's graph, whatever is computed, so hooks and derivatives by hidden rows are PyG's.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map_only, tree_unflatten

from a3gnn.acceleration.dropping import dropped
from a3gnn.models.layers.activation import Dropout
from a3gnn.models.layers.compiled import gradients, is_traced

_CHANGED = (
    "rows of an accelerated model's output must be read before its inputs or parameters are changed in place; read "
    "them before, or call .clone() on the output"
)
_BY_A_VIEW = (
    "an accelerated model's output was changed through a slice or view of it, which an autograd function, a checkpoint "
    "or torch.func can't see; call .clone() on the output before it is changed"
)


def may_wait() -> bool:
    """Returns whether rows may wait here: not within an autograd function, a backward pass or a checkpoint."""
    return (
        torch._C._is_fwd_grad_enabled()  # off in forward passes of autograd functions
        and torch._C._current_graph_task_id() == -1
        and torch._C._autograd._top_saved_tensors_default_hooks(False) is None
        and not torch.is_inference_mode_enabled()
        and not is_traced()
    )


class Recipe:
    """How all rows are computed, from the values of now.

    Attributes:
        function: Takes the matrices `rows` and the tensors `others`, as two lists, and returns all rows.
        rows: Matrices, in full: `LazyRows`, or tensors, which must not change.
        others: Further tensors, or None; copies of their values are kept.
        is_divided: Whether the rows computed first are in use, so that only the others come from this recipe.
        reads_all: Told when all rows are read before the first ones.
        is_fresh: Whether nobody else has `others`, so that they need no copies.
    """

    def __init__(
        self,
        function: Callable[[list[Any], list[Any]], Tensor],
        rows: Sequence[Any],
        others: Sequence[Tensor | None] = (),
        reads_all: Callable[[], None] | None = None,
        is_fresh: bool = False,
    ) -> None:
        self.function = function
        self.rows = list(rows)
        self.others = others
        self.is_divided = False
        self.reads_all = reads_all
        kept = [None if one is None else one.detach() for one in others]
        self._kept = kept if is_fresh else [None if one is None else one.clone() for one in kept]
        self._states = [_state(one) for one in rows]
        self._autocast = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")

    def of(self, *inputs: Any) -> Tensor:
        """Returns all rows for other values of `rows` and `others`."""
        on, dtype = self._autocast
        with torch.autocast("cpu", dtype, enabled=on, cache_enabled=False):
            return self.function(list(inputs[: len(self.rows)]), list(inputs[len(self.rows) :]))

    def replace(self, lazy: LazyRows, whole: Tensor) -> None:
        """Reads `whole`, the rows of `lazy`, from now on."""
        for place, one in enumerate(self.rows):
            if one is lazy and self._states[place] == _state(lazy):
                self.rows[place], self._states[place] = whole, _state(whole)

    def compute(self) -> Tensor:
        """Returns the values of all rows; those of `rows` are computed.

        Raises:
            RuntimeError: One of `rows` was changed in place since the call.
        """
        if [_state(one) for one in self.rows] != self._states:
            raise RuntimeError(_CHANGED)
        with _plainly(False):
            return self.of(*(_values(one) for one in self.rows), *self._kept)


class LazyRows(Tensor):
    """A matrix whose first rows are computed."""

    first: Tensor  # values of the first rows, or of all
    level: int  # how many convolutions they come from
    recipe: Recipe | None  # how all rows are computed; None if `first` has all
    _part: Tensor | None
    _node: Any
    _births: list[tuple[Tensor, int]]
    _divided: tuple[Tensor, int] | None
    _given: list[weakref.ref[Tensor]]
    _readers: weakref.WeakSet[Recipe]

    @staticmethod
    def __new__(cls, first: Tensor, num_rows: int, recipe: Recipe | None, level: int = 0) -> LazyRows:
        """Returns the matrix of `num_rows` rows, without gradient."""
        made: LazyRows = Tensor._make_wrapper_subclass(cls, (num_rows, first.shape[1]), dtype=first.dtype)
        made.first, made.recipe, made.level = first, recipe, level
        made._part = made._node = None
        made._births = [(first, first._version)]
        made._divided = None
        made._given = []
        made._readers = weakref.WeakSet()
        return made

    def __init__(self, *_: Any) -> None: ...

    @property
    def part(self) -> Tensor:
        """The computed rows, as a tensor of torch's graph."""
        if self._divided is not None and self._divided[0]._version != self._divided[1]:
            raise RuntimeError(
                "rows of an accelerated model's output were changed by a slice that was taken before "
                "all rows were read; call .clone() on the output first"
            )
        if self._part is None or (self.requires_grad and not self._part.requires_grad):
            if self.recipe is not None:
                self.recipe.is_divided = True
            with _plainly(True):
                part: Tensor = _Part.apply(self, self.first, 0)  # type: ignore[no-untyped-call]
            if self.grad_fn is None and self.requires_grad:  # a leaf, which its part would keep alive
                return part
            self._part, self._node = part, part.grad_fn
        if self.is_rebased and not torch._C._is_fwd_grad_enabled():  # within an autograd function
            raise RuntimeError(_BY_A_VIEW)
        return self._part

    @property
    def is_rebased(self) -> bool:
        """Whether rows were changed through a view of them: then torch's graph of them is that of `part` alone."""
        return self._part is not None and self._part.grad_fn is not self._node

    def whole(self) -> Tensor:
        """Returns all rows, as a tensor of torch's graph; see `Recipe.compute`."""
        pending = [self]
        while pending:
            before = [] if pending[-1].recipe is None else pending[-1].recipe.rows
            before = [one for one in before if isinstance(one, LazyRows) and one.recipe is not None]
            if before:
                pending.extend(before)
            else:
                pending.pop()._complete()
        return self.part

    def _complete(self) -> None:
        """Computes the rows that wait; all inputs have all rows."""
        if self.recipe is None:
            return
        values, recipe, rows = self.recipe.compute(), self.recipe, len(self.first)
        if recipe.is_divided:
            part, is_rebased = self.part, self.is_rebased
            with _plainly(True):
                self._part = torch.cat([part, _Part.apply(self, values[rows:], rows)])  # type: ignore[no-untyped-call]
            self._divided, self._node = (part, part._version), None if is_rebased else self._part.grad_fn
            self.first = self._part.detach()
        else:
            self._part, self.first = None, values
            if recipe.reads_all is not None:
                recipe.reads_all()
        self.recipe = None
        self._births.append((self.first, self.first._version))

    def given(self, rows: int) -> Tensor:
        """Returns the first `rows` rows, for the user."""
        found = (self.part if rows <= len(self.first) else self.whole())[:rows]
        self._given.append(weakref.ref(found))
        return found

    @property
    def changes(self) -> int:
        """How often rows were changed in place."""
        return sum(one._version - version for one, version in self._births)

    def become(self, other: Any) -> None:
        """Takes the rows of `other`, `LazyRows` or a tensor with all rows; those that read this one keep its own."""
        if isinstance(other, LazyRows):
            self.first, self.recipe, self.level = other.first, other.recipe, other.level
        else:
            self.first, self.recipe = other.detach(), None
        self._part, self._node, self._divided = None, None, None
        self._births, self._readers = [(self.first, self.first._version)], weakref.WeakSet()

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Applies `func` to the rows that it needs."""
        kwargs = kwargs or {}
        if func in _FACTS:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        of_graph = func in _OF_GRAPH or func is Tensor.register_hook
        if of_graph and any(one.is_rebased for one in _lazy((args, kwargs))):
            return func(*_plain(args), **_plain(kwargs))
        if func in _OF_GRAPH:
            with torch._C.DisableTorchFunctionSubclass():
                found = func(*args, **kwargs)
            return _plain(found)
        if func is Tensor.register_hook:
            return _hooked(*args, **kwargs)
        rule = _RULES.get(func)
        if rule is not None and may_wait():
            found = rule(func, *args, **kwargs)
            if found is not NotImplemented:
                return found
        if _changes_in_place(func, kwargs):
            return _changed(func, args, kwargs)
        found = func(*_plain(args), **_plain(kwargs))
        for lazy in _lazy((args, kwargs)):
            lazy._given += (weakref.ref(one) for one in tree_leaves(found) if _is_view(one, lazy))
        return found

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Applies `func`, which came from C++ code, to all rows."""
        if func._schema.is_mutable:
            raise RuntimeError("rows of an accelerated model's output can't be changed here; call .clone() on it first")
        if any(one.is_rebased for one in _lazy((args, kwargs))):
            raise RuntimeError(_BY_A_VIEW)
        args, kwargs = tree_map_only(LazyRows, _values, (args, kwargs or {}))
        return func(*args, **kwargs)


class _Joined(torch.autograd.Function):
    """The matrix of which some rows are computed."""

    @staticmethod
    def forward(ctx: Any, first: Tensor, num_rows: int, recipe: Recipe | None, level: int, *inputs: Any) -> LazyRows:
        ctx.rows, ctx.recipe = len(first), recipe
        ctx.save_for_backward(*(None if isinstance(one, LazyRows) else one for one in inputs))
        return LazyRows(first.detach(), num_rows, recipe, level)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        recipe, rows, none = ctx.recipe, ctx.rows, (None, None, None)
        if isinstance(grad, LazyRows) and grad.recipe is _PADDED and len(grad.first) <= rows:
            missing = rows - len(grad.first)
            padded = torch.nn.functional.pad(grad.first, (0, 0, 0, missing)) if missing else grad.first
            return padded, *none, *(None for _ in ctx.saved_tensors)
        grad = _plain(grad)
        if recipe is None:
            return grad, *none
        if getattr(grad, "_a3gnn_rows", None) == (rows, grad._version):
            return grad[:rows], *none, *(None for _ in ctx.saved_tensors)
        first: Tensor | None = None
        if recipe.is_divided:
            first, grad = grad[:rows], torch.nn.functional.pad(grad[rows:], (0, 0, rows, 0))
        for one, state in zip(recipe.rows, recipe._states, strict=True):
            if isinstance(one, LazyRows) and _state(one) != state:
                raise RuntimeError(_CHANGED)
        given = iter(ctx.saved_tensors)
        inputs = [
            _plain(one) if saved is None else saved
            for one, saved in zip([*recipe.rows, *recipe.others], given, strict=True)
        ]
        return first, *none, *gradients(recipe.of, tuple(inputs), ctx.needs_input_grad[4:], grad)


class _Part(torch.autograd.Function):
    """Rows of a matrix, of which the first has number `start`."""

    @staticmethod
    def forward(ctx: Any, lazy: LazyRows, rows: Tensor, start: int) -> Tensor:
        ctx.start, ctx.end, ctx.num_rows = start, start + len(rows), len(lazy)
        return rows.detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        missing = ctx.num_rows - ctx.end
        if missing and not ctx.start and not torch.is_grad_enabled():
            return LazyRows(grad, ctx.num_rows, _PADDED), None, None
        if missing and not ctx.start:
            grad = torch.nn.functional.pad(grad, (0, 0, 0, missing))
            grad._a3gnn_rows = ctx.end, grad._version  # type: ignore[attr-defined]  # the others are 0, whatever changes
        elif ctx.start:
            grad = torch.nn.functional.pad(grad, (0, 0, ctx.start, missing))
        return grad, None, None


class _Alias(torch.autograd.Function):
    """The same matrix as another tensor."""

    @staticmethod
    def forward(ctx: Any, lazy: LazyRows) -> LazyRows:
        return LazyRows(lazy.first, len(lazy), lazy.recipe, lazy.level)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


class _Become(torch.autograd.Function):
    """A change in place."""

    @staticmethod
    def forward(ctx: Any, lazy: LazyRows, other: Any) -> LazyRows:
        ctx.is_lazy = isinstance(other, LazyRows)
        lazy.become(other)
        ctx.mark_dirty(lazy)
        return lazy

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return None, grad if ctx.is_lazy else _plain(grad)


#: Stands for zeros after the first rows, in gradients.
_PADDED: Any = Recipe(lambda rows, others: rows[0], ())


def joined(
    first: Tensor,
    num_rows: int,
    function: Callable[[list[Any], list[Any]], Tensor] | None = None,
    rows: Sequence[Any] = (),
    others: Sequence[Tensor | None] = (),
    level: int = 0,
    reads_all: Callable[[], None] | None = None,
    is_fresh: bool = False,
) -> LazyRows:
    """Returns the matrix of `num_rows` rows whose first ones are `first`.

    Args:
        first: Computed rows, as a tensor of torch's graph.
        num_rows: Rows in all.
        function: See `Recipe`; so are the arguments after it, except `level`. None if `first` has all rows.
        rows: Matrices.
        others: Further tensors, or None.
        level: See `LazyRows`.
        reads_all: See `Recipe`.
        is_fresh: See `Recipe`.
    """
    rows = [one.whole() if isinstance(one, LazyRows) and one.is_rebased else one for one in rows]
    recipe = None if function is None or len(first) == num_rows else Recipe(function, rows, others, reads_all, is_fresh)
    inputs = () if recipe is None else (*rows, *others)
    made: LazyRows = _Joined.apply(first, num_rows, recipe, level, *inputs)  # type: ignore[no-untyped-call]
    for one in inputs:
        if isinstance(one, LazyRows) and recipe is not None:
            one._readers.add(recipe)
    return made


def _by_row(function: Callable[..., Tensor], rows: Sequence[Any], others: Sequence[Tensor | None] = ()) -> LazyRows:
    """Returns `function(*rows, *others)`, which computes each row from the same row of `rows`."""
    lazy = [one for one in rows if isinstance(one, LazyRows)]
    known = min(len(one.first) for one in lazy)
    first = function(*(first_rows(one, known) for one in rows), *others)
    level = max(one.level for one in lazy)
    return joined(first, len(rows[0]), lambda rows, others: function(*rows, *others), rows, others, level)


def first_rows(one: Any, rows: int) -> Tensor:
    """Returns the first `rows` rows of `one`, which are computed, as a tensor of torch's graph."""
    part: Tensor = one.part if isinstance(one, LazyRows) else one
    return part if len(part) == rows else part[:rows]


def _lazy(found: Any) -> list[LazyRows]:
    return [one for one in tree_leaves(found) if isinstance(one, LazyRows)]


def _is_view(one: Any, lazy: LazyRows) -> bool:
    """Returns whether `one` is a tensor in the memory of the rows of `lazy`."""
    if not isinstance(one, Tensor) or isinstance(one, LazyRows) or one.layout is not torch.strided:
        return False
    return lazy._part is not None and one.untyped_storage()._cdata == lazy._part.untyped_storage()._cdata


def _plain(found: Any) -> Any:
    """Returns `found`, in which `LazyRows` are replaced by tensors with all rows."""
    return tree_map_only(LazyRows, lambda one: one.whole() if one.recipe is not _PADDED else _values(one), found)


def _values(one: Any) -> Tensor:
    """Returns the values of all rows, without gradient."""
    if not isinstance(one, LazyRows):
        values: Tensor = one.detach()
        return values
    if one.recipe is _PADDED:
        return torch.nn.functional.pad(one.first, (0, 0, 0, len(one) - len(one.first)))
    if one.recipe is not None:
        one.whole()
    return one.first


def _state(one: Any) -> Any:
    """Returns what differs after `one` was changed in place or freed."""
    if isinstance(one, LazyRows):
        return one.changes
    return (-1 if one.is_inference() else one._version), one.data_ptr(), one.untyped_storage().nbytes()


def _plainly(grad: bool) -> AbstractContextManager[None]:
    """Runs torch's operators in a given grad mode, without inference mode and hooks of saved tensors."""
    is_plain = (
        not torch.is_inference_mode_enabled() and torch._C._autograd._top_saved_tensors_default_hooks(False) is None
    )
    return nullcontext() if is_plain and torch.is_grad_enabled() is grad else _made_plain(grad)


@contextmanager
def _made_plain(grad: bool) -> Iterator[None]:
    with (
        torch.inference_mode(False),
        torch.set_grad_enabled(grad),
        torch.autograd.graph.saved_tensors_hooks(lambda one: one, lambda one: one),
    ):
        yield


def _hooked(lazy: LazyRows, hook: Callable[[Tensor], Tensor | None]) -> Any:
    nodes = [] if lazy.grad_fn is None else [one for one, _ in lazy.grad_fn.next_functions if one is not None]
    # Such as those of tanh and softmax. The second derivative of ReLU is 0.
    reads_its_result = any(hasattr(one, "_saved_result") and one.name() != "ReluBackward0" for one in nodes)

    def called(grad: Tensor) -> Tensor:
        if reads_its_result and torch.is_grad_enabled():  # torch's hook also gets what second derivatives add by it
            raise RuntimeError(
                "a hook of an accelerated model's output can't see all of its second derivatives; call .clone() on the "
                "output, and register the hook there"
            )
        grad = _plain(grad)
        found = hook(grad)
        return grad if found is None else found

    with torch._C.DisableTorchFunctionSubclass():
        return Tensor.register_hook(lazy, called)  # type: ignore[no-untyped-call]


def _changes_in_place(func: Any, kwargs: dict[str, Any]) -> bool:
    name = getattr(func, "__name__", "")
    changes = name.endswith("_") and not name.endswith("__")
    return changes or name in _IN_PLACE or "out" in kwargs or bool(kwargs.get("inplace"))


def _changed(func: Any, args: Any, kwargs: Any) -> Any:
    """Applies `func`, which changes its first argument or `out` in place.

    Raises:
        RuntimeError: The user still has some of the rows, and would not see the change.
    """
    lazy = kwargs["out"] if "out" in kwargs else kwargs["input"] if "input" in kwargs else args[0]
    if not isinstance(lazy, LazyRows):
        return func(*_plain(args), **_plain(kwargs))
    in_use = [one for made in lazy._given if (one := made()) is not None]
    whole = lazy.whole()
    if not all(_is_view(one, lazy) for one in in_use):
        raise RuntimeError(
            "an accelerated model's rows must not be changed in place while a slice of them is in use; call "
            ".clone() on the output first"
        )
    before = whole.clone()
    for reader in list(lazy._readers):
        reader.replace(lazy, before if in_use else whole)
    changed = whole if in_use else before
    args, kwargs = tree_map_only(LazyRows, lambda one: changed if one is lazy else one.whole(), (args, kwargs))
    found = func(*args, **kwargs)
    if not in_use:
        _Become.apply(lazy, changed)  # type: ignore[no-untyped-call]
    return lazy if found is changed else found


def _placed(x: LazyRows, function: Callable[[LazyRows], LazyRows]) -> Any:
    """Returns `x` after the change in place to `function(x)`."""
    if x._given or len(x._readers) or (x.recipe is not None and x.recipe.is_divided):
        return NotImplemented
    _Become.apply(x, function(_Alias.apply(x)))  # type: ignore[no-untyped-call]
    return x


def _entrywise(func: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    """A function of each entry, whose other arguments are numbers."""
    kwargs = dict(kwargs)
    in_place = kwargs.pop("inplace", False)
    if not _is_alone(x, args, kwargs):
        return NotImplemented

    def function(x: LazyRows) -> LazyRows:
        return _by_row(lambda rows: func(rows, *args, **kwargs), [x])

    return _placed(x, function) if in_place else function(x)


def _entrywise_in_place(func: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    """As `_entrywise`, in place."""
    return _entrywise(_OUT_OF_PLACE[func], x, *args, **kwargs, inplace=True)


def _row_wise(func: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    """A function of each row that takes `dim`, such as a softmax."""
    dim = kwargs.get("dim", args[0] if args else None)
    if not _is_alone(x, args, kwargs) or dim not in (1, -1) or kwargs.get("dtype") is not None:
        return NotImplemented
    return _by_row(lambda rows: func(rows, *args, **kwargs), [x])


def _normalize(func: Any, x: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Any = None) -> Any:
    if not isinstance(x, LazyRows) or dim not in (1, -1) or out is not None:
        return NotImplemented
    return _by_row(lambda rows: func(rows, p, dim, eps), [x])


def _dropout(func: Any, x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    if not isinstance(x, LazyRows) or not 0 <= p < 1:
        return NotImplemented
    if not training or p == 0:
        return x
    dropout = Dropout.of(p, int(torch.randint(2**62, ())), "rows")

    def function(x: LazyRows) -> LazyRows:
        return _by_row(partial(dropped, dropout=dropout), [x])

    return _placed(x, function) if inplace else function(x)


def _linear(func: Any, x: Any, weight: Any, bias: Any = None) -> Any:
    if not isinstance(x, LazyRows) or isinstance(weight, LazyRows) or isinstance(bias, LazyRows):
        return NotImplemented
    return _by_row(func, [x], [weight, bias]) if weight.ndim == 2 else NotImplemented


def _norm(func: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    """A layer norm, or a batch norm, which computes all rows in training."""
    if torch.is_autocast_enabled("cpu") or not isinstance(x, LazyRows):
        return NotImplemented
    leaves, spec = tree_flatten((args, kwargs))
    held = [one for one in leaves if isinstance(one, Tensor)]
    if any(type(one) is LazyRows or one.dtype is not x.dtype for one in held):
        return NotImplemented
    if func is _F.batch_norm:
        names = ("running_mean", "running_var", "weight", "bias", "training")
        training = dict(zip(names, args, strict=False)).get("training", kwargs.get("training", False))
        if training:
            out = func(x.whole(), *args, **kwargs)
            return joined(out, len(x), level=x.level)
    elif list(kwargs.get("normalized_shape", args[0] if args else ())) != [x.shape[1]]:
        return NotImplemented

    def function(rows: Tensor, *tensors: Tensor) -> Any:
        given = iter(tensors)
        args, kwargs = tree_unflatten([next(given) if isinstance(one, Tensor) else one for one in leaves], spec)
        return func(rows, *args, **kwargs)

    return _by_row(function, [x], held)


def _arithmetic(func: Any, left: Any, right: Any, **kwargs: Any) -> Any:
    """A sum, difference, product or quotient with rows, with one row for all, or with a number."""
    if kwargs:
        return NotImplemented
    lazy = left if isinstance(left, LazyRows) else right
    sides = (left, right)
    for one in sides:
        fits = isinstance(one, Tensor) and one.shape in (lazy.shape, lazy.shape[1:]) and one.dtype is lazy.dtype
        if not fits and not isinstance(one, int | float):
            return NotImplemented
    aligned = [isinstance(one, Tensor) and one.shape == lazy.shape for one in sides]

    def function(*given: Tensor) -> Any:
        rows, others = iter(given[: sum(aligned)]), iter(given[sum(aligned) :])
        pairs = zip(sides, aligned, strict=True)
        return func(
            *(next(rows) if is_row else next(others) if isinstance(one, Tensor) else one for one, is_row in pairs)
        )

    rows = [one for one, is_row in zip(sides, aligned, strict=True) if is_row]
    others = [one for one, is_row in zip(sides, aligned, strict=True) if isinstance(one, Tensor) and not is_row]
    return _by_row(function, rows, others)


def _cat(func: Any, tensors: Any, dim: int = 0, **kwargs: Any) -> Any:
    if kwargs or dim not in (1, -1):
        return NotImplemented
    first = tensors[0]
    for one in tensors:
        if not isinstance(one, Tensor) or one.ndim != 2 or len(one) != len(first) or one.dtype is not first.dtype:
            return NotImplemented
    return _by_row(lambda *rows: func(rows, dim=1), list(tensors))


def _item(func: Any, x: Any, place: Any) -> Any:
    """`x[:rows]`."""
    from_start = isinstance(place, slice) and place.start in (None, 0) and place.step in (None, 1)
    if not isinstance(x, LazyRows) or not from_start or not isinstance(place.stop, int) or place.stop < 0:
        return NotImplemented
    return x.given(min(place.stop, len(x)))


def _narrow(func: Any, x: Any, dim: Any, start: Any, length: Any) -> Any:
    fits = isinstance(x, LazyRows) and dim == 0 and type(start) is int and start == 0 and type(length) is int
    return x.given(length) if fits and 0 <= length <= len(x) else NotImplemented


def _widened(func: Any, x: Any) -> Any:
    """`x.float()`."""
    return x if x.dtype is torch.float32 else _by_row(func, [x])


def _itself(func: Any, x: Any) -> Any:
    return x


def _is_alone(x: Any, args: Any, kwargs: Any) -> bool:
    """Returns whether `x` is lazy and no other argument is a tensor."""
    is_empty = not args and not kwargs
    return isinstance(x, LazyRows) and (
        is_empty or not any(isinstance(one, Tensor) for one in tree_leaves((args, kwargs)))
    )


_F = torch.nn.functional
_T: Any = Tensor  # whose attributes are descriptors, which its types leave out
_FACTS = {
    _T.shape.__get__,
    _T.dtype.__get__,
    _T.device.__get__,
    _T.layout.__get__,
    _T.ndim.__get__,
    _T.is_cuda.__get__,
    _T.is_sparse.__get__,
    _T.is_quantized.__get__,
    _T.requires_grad.__get__,
    Tensor.is_inference,
    Tensor.is_floating_point,
    torch.is_floating_point,
    Tensor.size,
    Tensor.dim,
    Tensor.numel,
    Tensor.__len__,
}
#: What concerns the matrix as a tensor of torch's graph.
_OF_GRAPH = {
    _T.grad_fn.__get__,
    _T.is_leaf.__get__,
    _T.output_nr.__get__,
    _T.retains_grad.__get__,
    _T.grad.__get__,
    _T.grad.__set__,
    _T.grad.__delete__,
    _T._backward_hooks.__get__,
    _T._backward_hooks.__set__,
    Tensor.requires_grad_,
    _T.requires_grad.__set__,
    Tensor.retain_grad,
    Tensor.backward,
    torch.autograd.backward,
    torch.autograd.grad,
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
