"""Which checks there are: every module beside the others that holds a CHECK, a site's files, and its programs."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import ValidationError

from wheeltapper.checks import gpu, host, network, programs
from wheeltapper.checks.model import Check, Fault
from wheeltapper.config import ChecksSection, Config, Section, explain
from wheeltapper.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Chosen:
    """A check that this node runs, and its limits as the site has set them."""

    check: Check[Any]
    limits: Section
    about: str
    """The docstring of the check's module."""
    may_convict: bool = True
    """A fault that the check knows takes the node out: when it cannot look, the node's verdict is unknown."""


def shipped() -> dict[str, ModuleType]:
    """Return the modules of the checks that come with Wheeltapper, by the check's name."""
    return _by_name(
        importlib.import_module(found.name)
        for package in (gpu, host, network)
        for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    )


def choose(section: ChecksSection) -> tuple[Chosen, ...]:
    """Return the checks that *section* leaves on, in the order of their names.

    Raises:
        ConfigError: a key names no check or a wrong limit, a site's file holds no check or cannot be loaded, or a
            program's label or disposition is wrong.
    """
    modules = shipped() | _by_name((*_site_modules(section.dirs), *programs.modules(section.programs)))
    for key, names in (("off", section.off), ("limits", section.limits)):
        for name in names:
            if name not in modules:
                raise ConfigError(f"checks.{key}: there is no check named {name!r}; there are {', '.join(modules)}")
    chosen = []
    for name, module in sorted(modules.items()):
        check: Check[Any] = module.CHECK
        limits = _limits(check, section.limits.get(name, {}))
        if name not in section.off:
            chosen.append(Chosen(check, limits, module.__doc__ or "", may_convict=_may_convict(module)))
    return tuple(chosen)


def schema() -> dict[str, Any]:
    """Return the JSON Schema of the configuration, with the limits of each check that comes with Wheeltapper."""
    whole = Config.model_json_schema()
    told = whole["$defs"]["ChecksSection"]["properties"]["limits"]["properties"] = {}
    for name, module in shipped().items():
        limits = module.CHECK.limits.model_json_schema()
        whole["$defs"] |= limits.pop("$defs", {})
        told[name] = limits
    return whole


def _may_convict(module: ModuleType) -> bool:
    """Return whether one of the faults that *module* names takes a node out."""
    return any(isinstance(each, Fault) and each.convicts for each in vars(module).values())


def _limits(check: Check[Any], values: Mapping[str, object]) -> Section:
    try:
        return check.limits.model_validate(values)
    except ValidationError as error:
        raise ConfigError(explain(error, f"checks.limits.{check.name}")) from error


def _by_name(modules: Iterable[ModuleType]) -> dict[str, ModuleType]:
    named: dict[str, ModuleType] = {}
    for module in modules:
        check = getattr(module, "CHECK", None)
        if check is None:
            continue  # a probe or a helper that several checks share
        if not isinstance(check, Check):
            raise ConfigError(f"{module.__file__}: CHECK is no wheeltapper.checks.model.Check")
        if check.name in named:
            raise ConfigError(f"{module.__file__}: {named[check.name].__file__} has a check named {check.name!r} too")
        named[check.name] = module
    return dict(sorted(named.items()))


def _site_modules(folders: Iterable[Path]) -> Iterator[ModuleType]:
    for path in sorted(file for folder in folders if folder.is_dir() for file in folder.glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"wheeltapper_site_check_{path.stem}", path)
        if spec is None or spec.loader is None:
            raise ConfigError(f"{path} is no Python file")
        module = sys.modules[spec.name] = importlib.util.module_from_spec(
            spec
        )  # by which a child's reading is unpickled
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:  # the boundary to somebody else's file
            raise ConfigError(f"{path} cannot be loaded: {type(error).__name__}: {error}") from error
        yield module
