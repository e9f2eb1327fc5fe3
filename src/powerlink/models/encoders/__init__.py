"""Encoders: from a graph and its edge weights to one vector per node."""

from powerlink.models.encoders.compgcn import CompGCN
from powerlink.models.encoders.rgcn import RGCN
from powerlink.models.encoders.table import Table
from powerlink.models.encoders.wgcn import WGCN

__all__ = ["CompGCN", "RGCN", "Table", "WGCN"]
