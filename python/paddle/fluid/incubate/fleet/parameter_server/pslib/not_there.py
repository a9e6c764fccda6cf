"""The error of all that pslib did."""

from __future__ import annotations

from paddle import absent


class PSLibNotThere(NotImplementedError, ImportError):
    """Scripts that get on without pslib catch an ImportError, which 1.8.5 raises where its parts are not installed."""


def not_there(what: str) -> PSLibNotThere:
    """It, for one name."""
    return PSLibNotThere(f"{what} is not there yet: it belongs to pslib, of which this package has a part. {absent.FLEET}")


def fill_absent(owner: type, names: str) -> None:
    """Gives a class methods of these names that raise it."""

    def method(name: str):
        def refuse(self, *unused, **unused_too):
            raise not_there(f"{owner.__name__}.{name}")

        refuse.__name__, refuse.__qualname__ = name, f"{owner.__name__}.{name}"
        refuse.__doc__ = "Not there yet; a call says what to use."
        return refuse

    for name in names.split():
        setattr(owner, name, method(name))
