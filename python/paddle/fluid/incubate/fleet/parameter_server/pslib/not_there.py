"""The error of all that pslib did."""

from __future__ import annotations

from paddle import absent


def not_there(what: str) -> NotImplementedError:
    """It, for one name."""
    return NotImplementedError(f"{what} is not there yet: it belongs to pslib, which this package has not. {absent.FLEET}")


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
