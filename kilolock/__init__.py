"""Kilolock: a Terraform and OpenTofu state backend whose state is a database."""

from __future__ import annotations

__version__ = "0.1.0"
