"""vyane: messaging between coding-agent sessions on one machine, through plain files."""

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.api import SentMessage, Turn, Vyane, connect

__all__ = ["SentMessage", "Turn", "Vyane", "__version__", "connect"]


def __getattr__(name: str) -> object:
    """Import the Python API on first use: hooks import this package without needing the API."""
    if name in __all__:
        from vyane_cli import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
