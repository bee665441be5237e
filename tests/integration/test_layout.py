"""The house rules that a type checker cannot hold."""

from __future__ import annotations

import ast
import operator
import sys
from pathlib import Path

import pytest

import wheeltapper

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]


def test_the_operator_folder_is_no_package_and_the_standard_librarys_operator_is_not_shadowed():
    assert not (ROOT / "operator" / "__init__.py").exists()
    assert Path(operator.__file__).parent != ROOT / "operator"


def test_nobody_imports_our_operator_by_the_standard_librarys_name():
    for path in [*ROOT.glob("src/**/*.py"), *ROOT.glob("*/wheeltapper_*/**/*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.startswith("operator.")], path


def test_one_version_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["version"] == wheeltapper.__version__
    assert f"## {wheeltapper.__version__}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("hook", ["hooks/prolog", "hooks/epilog", "hooks/healthcheck", "slurm/epilogslurmctld"])
def test_what_slurm_calls_is_a_shell_script_that_may_be_run(hook):
    path = ROOT / hook

    assert path.read_text().startswith("#!/bin/sh\n")
    assert path.stat().st_mode & 0o111 == 0o111
