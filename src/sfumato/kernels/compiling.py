"""When loops are compiled: not before it pays.

Compiling takes a tenth of a second to some seconds a loop, once on a machine. A table of a thousand
rows is done before that by other means: by numpy where the same answer is a line or two, and by
running a loop as the Python that it is. Both give what the compiled loop gives.

`compiled` marks a loop. Nothing is loaded before a loop is first used.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import importlib
import itertools
import os
import pickle
import stat
import sys
import tempfile
import threading
import time
import types
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property, partial, update_wrapper
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from numpy.lib.array_utils import byte_bounds

from sfumato.budget import Clock, memory_is_limited
from sfumato.kernels.compiler_process import made_apart
from sfumato.kernels.translating import Kind, Translated, UntranslatableError, compiled_code

_FEW = 1 << 10
"""Entries up to which numpy is as quick as a compiled loop."""

_LITTLE = 1 << 12
"""Numbers in arrays up to which a plain loop is as quick as LLVM is loaded."""

_LENT = 0.2
"""Seconds that loops which were compiled before may run as they are: numba is loaded in as much."""

_MANY = 1 << 17
"""Entries from which on a single call is reason enough to compile."""

_LOADING = 1 << 22
"""Entries in all that numpy has done in the time it takes to load compiled loops from disk …"""

_COMPILING = 1 << 25
"""… and in the time it takes to compile them."""


_GARBAGE = 10_000
"""New objects after which garbage is looked for while numba compiles."""


class _Work:
    """What numpy has done in this process that compiled loops would have done quicker."""

    entries = 0


def by_numpy(entries: int) -> bool:
    """Whether numpy should go through so many entries, so that nothing needs to be compiled."""
    if entries <= _FEW:
        return True
    if entries >= _MANY:
        return False
    _Work.entries += entries - _FEW
    if _Work.entries < _LOADING:
        return True
    return _Work.entries < _COMPILING and not _stored()


@cache
def _stored() -> bool:
    """Whether loops that measuring and scanning need have been compiled before."""
    from sfumato.kernels import key_tables

    return bool(key_tables._mark.stored and key_tables._number.stored)


class Loop:
    """A function that numba compiles, or that runs as it is as long as it has little to do.

    Parameters
    ----------
    function
        The loop, over numbers and arrays. What it gives must not depend on how it runs: it takes
        logarithms and roots from `math`, and widens what it adds to a count from an array of its
        own that is narrower than 64 bits.
    most
        Numbers in the arrays up to which it may run as it is.
    patience
        Seconds that it may run as it is, in all: about what compiling it takes.
    instead
        What gives the same without a compiler; it runs where the loop would run as it is, also
        within another, and has the same arguments.
    direct
        Whether LLVM compiles it without numba (see `translating`), or up to how many numbers in the
        arrays: numba takes longer, and what it makes of simple loops over many numbers is quicker.
    options
        More for numba.
    """

    at_once = False
    """Whether all loops are compiled or loaded when they are first called, however little they do;
    see `without_delay`."""
    lent = _LENT
    """What is left of that."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        most: int = 1 << 15,
        patience: float | None = None,
        instead: Callable[..., Any] | None = None,
        direct: bool | int = False,
        **options: Any,
    ) -> None:
        self.py_func = function
        self.most = most
        self.patience = (0.1 if direct else 0.7) if patience is None else patience
        self.instead = instead
        self.direct = direct
        self._options = options
        self._settled: Callable[..., Any] | None = None
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        """Run it."""
        if self._settled is not None:
            return self._settled(*arguments)
        if self._may_run_as_it_is(arguments):
            start = time.thread_time()
            try:
                return (self.instead or self.interpreted)(*arguments)
            except _TooLong:
                self.patience = 0.0
            finally:
                took = time.thread_time() - start
                self.patience -= took
                Loop.lent -= took if vars(self).get("_was_stored") else 0.0
        self._settled = self._without_numba if self.direct else self.dispatcher
        return self._settled(*arguments)

    def _without_numba(self, *arguments: Any) -> Any:
        if self.direct is not True and not _few(arguments, self.direct, apart=False):
            return self.dispatcher(*arguments)
        try:
            return self.translated(*arguments)
        except UntranslatableError:
            self._settled = self.dispatcher
            return self._settled(*arguments)

    def ahead(self, seconds: float) -> None:
        """Say how long it would take as it is to do what is to come: maybe too long to begin so."""
        if seconds > self.patience:
            self.patience = 0.0

    @property
    def settled(self) -> bool:
        """Whether it runs compiled in this process, from now on."""
        return self._settled is not None

    @cached_property
    def dispatcher(self) -> Any:
        """Numba's own object, for calls from Python."""
        return self._made()

    @cached_property
    def translated(self) -> Translated:
        """The loop without numba."""
        return Translated(self.py_func, self._folder, _translated)

    @cached_property
    def inside(self) -> Any:
        """Numba's own object, for calls from other loops.

        It cannot be called from Python: to unpack the arguments of such a call, often tuples of
        dozens of arrays, is a quarter of all that there is to compile. Nor is it made into machine
        code of its own: see `_linked_only`.
        """
        made = self._made(no_cpython_wrapper=True, pipeline_class=_linked_only())
        _for_all_numbers(made)
        return made

    def _made(self, **options: Any) -> Any:
        # What is not said of memory, a loop takes from the one that happens to call it first.
        return njit(**{"nogil": True, "_nrt": True, **self._options, **options})(self.py_func)

    @property
    def _numba_type_(self) -> Any:
        """How numba sees this loop inside of another."""
        return self.inside._numba_type_

    @cached_property
    def plain(self) -> Callable[..., Any]:
        """The loop as Python, and so are all loops that it calls."""
        return plain(self)

    def interpreted(self, *arguments: Any) -> Any:
        """Run it as Python; whole numbers have 64 bits, as numba computes with them.

        It works on copies: where its patience ends before it does, nothing has happened. Only what
        it changed is written back, since other threads may be writing to other places.
        """
        copies: list[tuple[Any, Any]] = []
        own = [_copied(argument, copies) for argument in arguments]
        # What was copied, and not the array again: others may have written to it meanwhile.
        before = [copy.astype(array.dtype) for array, copy in copies]
        with _uncollected(), np.errstate(all="ignore", divide="raise"), _Alarm(self.patience):
            result = self.plain(*own)
        for (array, copy), was in zip(copies, before, strict=True):
            after = copy.astype(array.dtype)
            changed = after != was
            if changed.any():
                array[changed] = after[changed]
        return result

    @property
    def stored(self) -> bool:
        """Whether it was compiled before, for some types, and the code lies on disk."""
        source, folder = self._source, self._folder()
        name = f"{source.stem}.{self.py_func.__name__}-*.nbi"
        found = folder.rglob(name) if folder is not None else ()
        return any(index.stat().st_mtime >= source.stat().st_mtime for index in found)

    @property
    def _source(self) -> Path:
        return Path(self.py_func.__code__.co_filename)

    def _folder(self) -> Path | None:
        """The folder of what was compiled; None where nothing can be kept."""
        folder = _kept_beside(self._source) or self.dispatcher.stats.cache_path
        return None if folder is None else Path(folder)

    @cached_property
    def _was_stored(self) -> bool:
        """Whether it was when first asked: to look takes longer than many a loop."""
        return self.stored

    def _may_run_as_it_is(self, arguments: tuple[Any, ...]) -> bool:
        """Whether it has little to do, and was not compiled before for such arguments."""
        if Loop.at_once or not self.most or self.patience <= 0:
            return False
        if not _few(arguments, self.most, apart=self.instead is None):
            return False
        if self.direct:  # what is kept is not worth loading for a little
            return _few(arguments, _LITTLE, apart=False) or not self.translated.is_kept(arguments)
        if not self._was_stored:
            return True
        little = Loop.lent > 0 and _few(arguments, _LITTLE, apart=False)
        if little and "numba" not in sys.modules:
            return True
        signature = tuple(map(self.dispatcher.typeof_pyval, arguments))
        index = self.dispatcher._cache._cache_file._load_index()
        return all(key[0] != signature for key in index)


def _kept_beside(source: Path) -> Path | None:
    """A folder that holds what numba keeps of a file; None where one has to load it to ask."""
    if given := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(given)
    return source.parent / "__pycache__" if os.access(source.parent, os.W_OK) else None


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Numba's own, keeping what it compiles: beside the package, or where that can be written."""
    with _seldom_collected():
        import numba

        _without_linear_algebra()
    options = {"no_cfunc_wrapper": True, **options}  # an eighth less to compile; C calls no loop

    def decorate(function: Callable[..., Any]) -> Any:
        _listen()
        try:
            dispatcher = numba.njit(cache=True, **options)(function)
        except RuntimeError:  # neither the package nor the user's folder can be written
            folder = _own_folder()
            if folder is None:
                dispatcher = numba.njit(**options)(function)
                dispatcher._cache.load_overload = partial(_loaded, dispatcher)
                return dispatcher
            numba.config.CACHE_DIR = folder
            dispatcher = numba.njit(cache=True, **options)(function)
        return _once_for_all(dispatcher)

    return decorate


@cache
def _without_linear_algebra() -> None:
    """Load what numba compiles with, but for scipy's linear algebra.

    Numba looks whether that is there, for the covariances of loops that ask for some. None does,
    and looking takes longer than to load a dozen compiled loops.
    """
    from numba.np import linalg

    def missing() -> None:
        raise ImportError

    looking = linalg.ensure_blas
    linalg.ensure_blas = missing
    try:
        import numba.np.arraymath  # noqa: F401
    finally:
        linalg.ensure_blas = looking


def _once_for_all(dispatcher: Any) -> Any:
    """Let one of several processes compile a loop, and the others wait and load what it made.

    Numba would compile it in each, and may then mix up their files: it numbers them by a list
    that two processes can read before either has written to it.
    """
    from numba.core.compiler_lock import global_compiler_lock

    cache, compiling = dispatcher._cache, dispatcher.compile
    if dispatcher.targetoptions.get("no_cpython_wrapper"):  # another than that of the same name
        cache._cache_file = type(cache._cache_file)(
            cache_path=cache.cache_path,
            filename_base=cache._impl.filename_base.replace(".", ".inside.", 1),
            source_stamp=cache._impl.locator.get_source_stamp(),
        )
    cache.load_overload = partial(_loaded, dispatcher)
    kept = cache._cache_file

    def once(signature: Any) -> Any:
        if signature in dispatcher.overloads:
            return compiling(signature)
        turns = _Turns.of(kept._cache_path)
        with (
            global_compiler_lock,
            turns.taken(kept._index_name),
            _nothing_for_c(),
            _seldom_collected(),
        ):
            return compiling(signature)

    dispatcher.compile = once
    return dispatcher


def _loaded(dispatcher: Any, signature: Any, target: Any) -> Any:
    """What was compiled before for arguments of some types, or by a process of its own; or None.

    Numba would load all that it compiles with before it looks, which takes about as long as numba
    itself. Before it compiles, it does so anyway.
    """
    from numba.core.compiler import CompileResult
    from numba.core.runtime import rtsys

    rtsys.initialize(target)  # loops may ask for memory
    cache, found = dispatcher._cache, None
    if hasattr(cache, "_load_overload"):
        with cache._guard_against_spurious_io_errors():
            found = cache._load_overload(signature, target)
    if found is None and (place := _place_apart(dispatcher.py_func)):
        with _Paused():
            made = made_apart(_by_numba, *place, signature)
        found = made and CompileResult._rebuild(target, *pickle.loads(made))
    return found


def _place_apart(function: Any) -> tuple[str, str] | None:
    """Module and name by which another process finds a loop that it is to compile, if any is."""
    module, name = function.__module__, function.__name__
    loop = getattr(sys.modules.get(module), name, None)
    found = memory_is_limited() and getattr(loop, "py_func", None) is function
    return (module, name) if found else None


def _by_numba(module: str, name: str, signature: Any) -> bytes:
    """The code of a loop, as numba keeps it; whoever asks has taken the turn to compile it."""
    from numba.core.serialize import dumps

    loop = getattr(importlib.import_module(module), name)
    dispatcher = getattr(loop, "dispatcher", loop)
    with _nothing_for_c(), _seldom_collected():
        type(dispatcher).compile(dispatcher, signature)
    return bytes(dumps(dispatcher.overloads[signature]._reduce()))


def _without_numba(module: str, name: str, kinds: tuple[Kind, ...]) -> bytes:
    """The code of a loop, as `translating` makes it."""
    return compiled_code(getattr(importlib.import_module(module), name).py_func, kinds)


def _translated(function: Any, kinds: tuple[Kind, ...]) -> bytes:
    """The code of a loop without numba, made here or by a process of its own."""
    with _Paused():
        place = _place_apart(function)
        made = made_apart(_without_numba, *place, kinds) if place else None
        return made or compiled_code(function, kinds)


@contextmanager
def _nothing_for_c() -> Iterator[None]:
    """Let numba make what loops need of its own, such as sorting, without a way in from C too."""
    option, defaults = _way_in_from_c()
    if option is None:
        yield
        return
    before, option._default = option._default, True
    defaults["no_cfunc_wrapper"] = True
    try:
        yield
    finally:
        option._default = defaults["no_cfunc_wrapper"] = before


@cache
def _way_in_from_c() -> tuple[Any, dict[str, Any]]:
    """Numba's setting for it, None in another numba that keeps them elsewhere, and what all are by
    default: so they are quicker to compare, and numba does so again and again."""
    from numba.core.compiler import Flags

    option = Flags.options.get("no_cfunc_wrapper")
    if not (hasattr(option, "_default") and hasattr(Flags(), "_values")):
        return None, {}
    defaults = {name: one._default for name, one in Flags.options.items()}
    Flags.values = lambda flags: defaults | flags._values
    return option, defaults


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """Look for garbage less often: numba makes many objects, and keeps most of them."""
    before = gc.get_threshold()
    gc.set_threshold(before[0] and max(_GARBAGE, before[0]), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


class _Turns:
    """Who compiles what, among the processes that keep compiled code in one folder.

    A byte of a file stands for each loop: the system takes back what a process has locked when it
    ends, however it ends. Where nothing can be locked, nobody waits.
    """

    patience = 120.0
    """Seconds to wait for another, who may have been stopped in the midst of it; then no more."""

    def __init__(self, folder: str) -> None:
        self._taken: Counter[int] = Counter()  # a loop may need itself, for other types
        self._file: int | None
        try:
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
            self._file = os.open(Path(folder, "compiling.lock"), flags, 0o666)
        except OSError:
            self._file = None

    @classmethod
    @cache
    def of(cls, folder: str) -> _Turns:
        """Those of a folder: its file stays open, since closing it would give up every lock."""
        return cls(folder)

    @contextmanager
    def taken(self, name: str) -> Iterator[None]:
        """Compile the loop of this name while no other process does."""
        byte = zlib.crc32(name.encode()) >> 1
        self._taken[byte] += 1
        mine = self._taken[byte] == 1 and self._file is not None and self._waited(self._file, byte)
        try:
            yield
        finally:
            self._taken[byte] -= 1
            if mine and self._file is not None:
                _lock(self._file, byte, free=True)

    @classmethod
    def _waited(cls, file: int, byte: int) -> bool:
        """Wait for one's turn; False if it never comes."""
        if _lock(file, byte):
            return True
        until, pause = time.monotonic() + cls.patience, 0.001
        with _Paused():
            while time.monotonic() < until:
                time.sleep(pause)
                if _lock(file, byte):
                    return True
                pause = min(2 * pause, 0.05)
        cls.patience = 0.0
        return False


def _lock(file: int, byte: int, *, free: bool = False) -> bool:
    """Lock a byte of a file for this process, or give it free; False if another has it."""
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(file, byte, os.SEEK_SET)
            msvcrt.locking(file, msvcrt.LK_UNLCK if free else msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.lockf(file, fcntl.LOCK_UN if free else fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
    except OSError as error:
        return error.errno not in (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
    return True


@cache
def _linked_only() -> Any:
    """How numba compiles what is only ever linked into loops that call it: up to its own language.

    Those optimise all that they are made of as a whole, and only they run. Numba would optimise
    each part before, and make it into machine code that nobody calls: a fifth of all the time.
    """
    from llvmlite import binding
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import Compiler

    insides = ("_optimize_final_module", "_finalize_dynamic_globals", "_finalize_final_module")
    if not all(hasattr(JITCodeLibrary, name) for name in insides):
        return Compiler  # another numba than 0.61 to 0.68, where this was tried

    class Part(JITCodeLibrary):  # type: ignore[misc]
        """Functions to be linked; by itself no more than a place for what surrounds them."""

        _final_module: Any

        def _optimize_final_module(self) -> None:
            """Leave it to those it is linked into."""

        def _finalize_final_module(self) -> None:
            self._finalize_dynamic_globals()
            self._shared_module = whole = self._final_module
            for one in whole.functions:
                if one.is_declaration:
                    continue
                if one.name.startswith("_ZN5numba"):
                    one.linkage = "internal"  # two of one name may differ: see `test_compiled`
                elif one.linkage.name == "external":
                    one.linkage = "linkonce_odr"
            rooms = [str(one) for one in whole.global_variables if "NumbaEnv" in one.name]
            empty = str(self._codegen._create_empty_module(self.name))
            self._final_module = binding.parse_assembly("\n".join([empty, *rooms]))
            self._final_module.name = whole.name
            super()._finalize_final_module()

    class LinkedOnly(Compiler):  # type: ignore[misc]
        def __init__(self, typing: Any, target: Any, library: Any, *rest: Any) -> None:
            if library is None:
                library = Part(target.codegen(), "inside")
                library.enable_object_caching()
            super().__init__(typing, target, library, *rest)

    return LinkedOnly


def _for_all_numbers(dispatcher: Any) -> None:
    """Compile a loop once where another calls it with a constant: numba would once more for it."""
    from numba.core.types.misc import unliteral

    template = dispatcher.get_call_template

    def plain(arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return template(
            tuple(map(unliteral, arguments)),
            {name: unliteral(kind) for name, kind in named.items()},
        )

    dispatcher.get_call_template = plain


def compiled(function: Callable[..., Any] | None = None, **how: Any) -> Any:
    """Mark a loop, with or without saying up to when it may run as it is; see `Loop`."""
    return partial(Loop, **how) if function is None else Loop(function, **how)


always_compiled = partial(Loop, most=0)
"""Marks a loop that is called only where numpy would take longer; it may see memory directly."""


without_numba = partial(Loop, direct=True)
"""Marks a loop that is written so plainly that LLVM compiles it in a tenth of the time."""


bare = partial(Loop, _nrt=False)
"""For functions that make no arrays: nobody counts references to those they are handed, which
would take longer than what most of these functions do."""


@contextmanager
def without_delay() -> Iterator[None]:
    """Compile or load every loop that is called meanwhile."""
    Loop.at_once = True
    try:
        yield
    finally:
        Loop.at_once = False


def plain(loop: Any, known: dict[Any, Callable[..., Any]] | None = None) -> Callable[..., Any]:
    """A loop, or a function that `njit` made, as Python; and so are all that it calls, or what
    they name instead. Those that are `known` are not made again."""
    known = {} if known is None else known
    function = loop.py_func
    if function not in known:  # a loop may call itself
        scope = dict(function.__globals__)
        code = function.__code__
        twin = types.FunctionType(code, scope, code.co_name, function.__defaults__)
        known[function] = twin
        for name in code.co_names:
            called: Any = scope.get(name)
            if hasattr(called, "py_func"):
                instead = getattr(called, "instead", None)
                scope[name] = instead or plain(called, known)
            elif hasattr(called, "plain"):  # an instruction of the processor
                scope[name] = called.plain
    return known[function]


def _few(arguments: tuple[Any, ...], most: int, *, apart: bool) -> bool:
    """Whether the arguments are numbers and arrays (`apart` from each other), with few numbers."""
    arrays: list[npt.NDArray[Any]] = []
    waiting = list(arguments)
    for value in waiting:
        if isinstance(value, tuple):
            waiting += value
        elif isinstance(value, np.ndarray):
            arrays.append(value)
        elif not isinstance(value, int | float | np.generic):
            return False
    if sum(array.size for array in arrays) > most:
        return False
    if not apart:
        return True
    bounds = sorted(byte_bounds(array) for array in arrays if array.size)
    return all(end <= start for (_, end), (start, _) in itertools.pairwise(bounds))


def _copied(value: Any, copies: list[tuple[Any, Any]]) -> Any:
    """The same with arrays of its own; `copies` collects those that may be written, and theirs."""
    if isinstance(value, tuple):
        items = [_copied(item, copies) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, np.ndarray | np.integer) and value.dtype.kind in "iu":
        copy = value.astype(np.int64 if value.itemsize < 8 else value.dtype)
    elif isinstance(value, np.ndarray):
        copy = value.copy()
    else:
        return value
    if isinstance(value, np.ndarray) and value.flags.writeable:
        copies.append((value, copy))
    return copy


class _TooLong(BaseException):
    """A loop has run as it is for longer than compiling takes."""


class _Alarm:
    """Raises `_TooLong` in the thread that set it, unless what it guards ends before.

    Seconds are those that the thread computes, where the system tells: on a busy machine it waits.
    One thread looks after all alarms, until none is set for a second: to start one for each would
    take longer than most loops do. It holds nothing while it sleeps, so that a process may fork.
    """

    every = 0.05
    """Seconds from one look at all alarms to the next."""
    _all: ClassVar[set[_Alarm]] = set()
    _watch: ClassVar[threading.Thread | None] = None

    def __init__(self, seconds: float) -> None:
        self._thread = threading.get_ident()
        self._clock: Callable[[], float] = time.monotonic
        if hasattr(time, "pthread_getcpuclockid"):
            self._clock = partial(time.clock_gettime, time.pthread_getcpuclockid(self._thread))
        self._end = self._clock() + seconds
        self._lock = threading.Lock()
        self._rang = self._over = False

    @classmethod
    def _look_after_all(cls) -> None:
        quiet = 0.0
        while quiet < 1:
            time.sleep(cls.every)
            for alarm in list(cls._all):
                alarm._look()
            quiet = 0.0 if cls._all else quiet + cls.every
            if quiet >= 1:
                cls._watch = None  # from here on whoever sets one starts another thread
                quiet = 0.0 if cls._all else quiet

    def _look(self) -> None:
        with self._lock:
            due = not self._over and not self._rang and self._clock() >= self._end
        if due:
            self._ring()

    def _ring(self) -> None:
        with self._lock:
            if not self._over:
                self._rang = True
                self._raise(ctypes.py_object(_TooLong))

    def __enter__(self) -> None:
        if _Alarm._watch is not None and not _Alarm._watch.is_alive():  # in a copied process
            _Alarm._all, _Alarm._watch = set(), None
        _Alarm._all.add(self)
        if _Alarm._watch is None:
            watch = threading.Thread(target=self._look_after_all, daemon=True)
            watch.start()
            _Alarm._watch = watch

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        _Alarm._all.discard(self)
        with self._lock:
            self._over = True
        if self._rang and kind is not _TooLong:
            self._raise(None)  # take back what is on its way: nobody would expect it out there

    def _raise(self, error: ctypes.py_object[type[BaseException]] | None) -> None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), error)


class _Uncollected:
    """How many loops run as they are now, and whether garbage was collected before."""

    lock = threading.Lock()
    loops = 0
    before = False


@contextmanager
def _uncollected() -> Iterator[None]:
    """Let no garbage be collected meanwhile: whoever is told of that would swallow an alarm."""
    with _Uncollected.lock:
        if not _Uncollected.loops:
            _Uncollected.before = gc.isenabled()
            gc.disable()
        _Uncollected.loops += 1
    try:
        yield
    finally:
        with _Uncollected.lock:
            _Uncollected.loops -= 1
            if not _Uncollected.loops and _Uncollected.before:
                gc.enable()


class _Paused:
    """Stops the clock of all budgets while this process or one it waits for compiles; says so."""

    depth = 0

    def __enter__(self) -> None:
        _Paused.depth += 1
        if _Paused.depth == 1:
            try:
                Clock.stop("compiling, once on this machine")
            except BaseException:  # whoever is told may want to end the work
                self.__exit__()
                raise

    def __exit__(self, *_: object) -> None:
        _Paused.depth -= 1
        if _Paused.depth == 0:
            Clock.go_on()


@cache
def _listen() -> None:
    """Pause whenever numba compiles."""
    from numba.core import event

    class Compiling(event.Listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:
            _Paused().__enter__()

        def on_end(self, event: Any) -> None:
            if _Paused.depth:  # else what began before anybody listened
                _Paused().__exit__()

    event.register("numba:compile", Compiling())


def _own_folder() -> str | None:
    """A folder of this user's alone for compiled code; None where none can be made.

    What lies in it is run, so nobody else may be able to write there.
    """
    user = getattr(os, "getuid", lambda: "user")()
    try:
        folder = Path(tempfile.gettempdir(), f"sfumato-compiled-{user}")
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        others = found.st_mode & 0o077 or not stat.S_ISDIR(found.st_mode)
        if os.name == "posix" and (others or found.st_uid != user):
            return tempfile.mkdtemp(prefix="sfumato-compiled-")
    except OSError:
        return None
    return str(folder)
