"""Reads the ``KL_*`` variables once, into a frozen dataclass."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

AUTH_MODES = ("open", "static", "database")
LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("text", "json")


class ConfigError(ValueError):
    """A setting that kld cannot work with; the message names the variable."""


@dataclass(frozen=True)
class Settings:
    """Everything that kld can be told from outside."""

    database_url: str | None = field(default=None, repr=False)
    listen_addr: str = "127.0.0.1:8080"
    log_level: str = "info"
    log_format: str = "text"
    auth_mode: str = "open"
    auth_token: str | None = field(default=None, repr=False)
    max_state_mb: int = 512
    max_archive_mb: int = 1024
    pgdata: Path = Path("kilolock")
    threads: int = 16

    @property
    def listen(self) -> tuple[str, int]:
        """The host and the port of ``listen_addr``."""
        return split_address(self.listen_addr)


def split_address(address: str) -> tuple[str, int]:
    """Split ``host:port``, ``:port`` or ``[::1]:port``; no host means every interface."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ConfigError(
            f'KL_LISTEN_ADDR "{address}" is not an address; '
            "write host:port or :port, such as 127.0.0.1:8080"
        )
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    return host or "0.0.0.0", int(port)


def default_pgdata(environ: Mapping[str, str]) -> Path:
    """The folder of the embedded server when ``KL_PGDATA`` says nothing."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        # PostgreSQL refuses to run as root, and the user it runs as cannot look into /root.
        return Path("/var/lib/kilolock")
    home = Path(environ.get("HOME") or Path.home())
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "kilolock"
    return Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share") / "kilolock"


def _choice(environ: Mapping[str, str], name: str, allowed: tuple[str, ...], default: str) -> str:
    value = (environ.get(name) or default).strip().lower()
    if value not in allowed:
        raise ConfigError(f'{name} "{value}" is unknown; it is one of {", ".join(allowed)}')
    return value


def _number(environ: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = (environ.get(name) or str(default)).strip()
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= most:
        raise ConfigError(f'{name} "{text}" is not a whole number from 1 to {most}')
    return int(text)


def load(environ: Mapping[str, str]) -> Settings:
    """Read the settings from an environment; raises ConfigError in words a user can act on."""
    auth_mode = _choice(environ, "KL_AUTH_MODE", AUTH_MODES, "open")
    # Without authentication only this machine may ask, unless the operator says otherwise.
    default_listen = "127.0.0.1:8080" if auth_mode == "open" else "0.0.0.0:8080"
    pgdata = environ.get("KL_PGDATA")
    settings = Settings(
        database_url=environ.get("KL_DATABASE_URL") or environ.get("DATABASE_URL") or None,
        listen_addr=environ.get("KL_LISTEN_ADDR") or default_listen,
        log_level=_choice(environ, "KL_LOG_LEVEL", LOG_LEVELS, "info"),
        log_format=_choice(environ, "KL_LOG_FORMAT", LOG_FORMATS, "text"),
        auth_mode=auth_mode,
        auth_token=environ.get("KL_AUTH_TOKEN") or None,
        # A PostgreSQL value ends at 1 GB, and the document travels as one.
        max_state_mb=_number(environ, "KL_MAX_STATE_MB", 512, 1000),
        max_archive_mb=_number(environ, "KL_MAX_ARCHIVE_MB", 1024, 1_000_000),
        pgdata=Path(pgdata).expanduser().absolute() if pgdata else default_pgdata(environ),
        threads=_number(environ, "KL_THREADS", 16, 500),
    )
    split_address(settings.listen_addr)
    return settings


def check_auth(settings: Settings) -> None:
    """Refuse to serve with an authentication mode that would protect nothing."""
    if settings.auth_mode == "static" and not (settings.auth_token or "").strip():
        raise ConfigError(
            "KL_AUTH_MODE is static but KL_AUTH_TOKEN is empty; set a long random token"
        )
    if settings.auth_mode == "database":
        raise ConfigError(
            "KL_AUTH_MODE database is not available in this release; use static or open"
        )
