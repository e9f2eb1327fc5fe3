"""The hot loops in Triton, for CUDA; each computes what the plain-torch kernel of the same name computes.

Nothing here is imported on machines without Triton. Under TRITON_INTERPRET=1 the kernels run on the CPU, for tests.
"""
