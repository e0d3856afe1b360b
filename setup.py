"""Builds the C++ extension; everything else about the package stands in pyproject.toml."""

from __future__ import annotations

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

allocator = CppExtension(
    "prism.gpu._allocator",
    ["ext/torch/allocator.cpp"],
    extra_compile_args=["-O2", "-std=c++20", "-Wall", "-Wextra"],
    optional=True,  # without a compiler PRISM still runs; it only reports no peak memory
)

# Not ninja: its failures are RuntimeErrors, which setuptools does not forgive an optional extension.
setup(ext_modules=[allocator], cmdclass={"build_ext": BuildExtension.with_options(use_ninja=False)})
