"""Builds the C++ extensions; everything else about the package stands in pyproject.toml."""

from __future__ import annotations

from glob import glob

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension


def extension(name: str) -> CppExtension:
    """`prism.gpu._NAME` from ext/torch/NAME.cpp."""
    return CppExtension(
        f"prism.gpu._{name}",
        [f"ext/torch/{name}.cpp"],
        depends=sorted(glob("ext/torch/*.h")),
        extra_compile_args=["-O3", "-std=c++20", "-Wall", "-Wextra", "-Wno-unused-parameter"],
        optional=True,  # without a compiler PRISM runs with less: prism.gpu.memory, prism.gpu.python_group
    )


# Not ninja: its failures are RuntimeErrors, which setuptools does not forgive an optional extension.
setup(
    ext_modules=[extension("allocator"), extension("backend"), extension("fold")],
    cmdclass={"build_ext": BuildExtension.with_options(use_ninja=False)},
)
