"""The hot loops: one plain-torch reference each, faster versions beside it."""
