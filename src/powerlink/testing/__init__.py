"""The contracts of the seams, for whoever writes a part of their own; no test framework is needed."""

from powerlink.testing.explainer import broken_promises, check_explainer
from powerlink.testing.link_model import check_link_model
from powerlink.testing.small_world import small_session

__all__ = ["broken_promises", "check_explainer", "check_link_model", "small_session"]
