"""Benchmarks: ``python -m tests.bench`` measures every group of figures and writes ``build/bench.jsonl``.

A group is one file ``figures_NAME.py`` here with a function ``figures(runs)`` that yields :class:`Figure`.
"""
