"""anchor: search composition space for new stable crystals over a frozen structure prior."""

__version__ = "0.1.0"
