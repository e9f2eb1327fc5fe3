"""Checks for what users bring themselves."""

from powerlink.testing.link_model import check_link_model

__all__ = ["check_link_model"]
