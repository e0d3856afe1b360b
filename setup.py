"""Builds the C++ extensions; everything else about the package stands in pyproject.toml."""

from __future__ import annotations

from glob import glob

from setuptools import Extension, setup
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


def engine() -> Extension:
    """The engine of pruned collectives, from ext/nccl: no Python module, but a library that ctypes loads."""
    return Extension(
        "prism.gpu._pruned",
        sorted(glob("ext/nccl/*.cpp")),
        depends=sorted(glob("ext/nccl/*.h")),
        # Contracted, a * b + c would be rounded once where two roundings are what the sums are held to.
        extra_compile_args=["-O3", "-std=c++20", "-Wall", "-Wextra", "-ffp-contract=off", "-fvisibility=hidden"],
        language="c++",
        optional=True,
    )


def spill() -> Extension:
    """`prism.gpu._spill`, from ext/spill: no Python module either. Nothing may be bound while threads are held."""
    return Extension(
        "prism.gpu._spill",
        sorted(glob("ext/spill/*.cpp")),
        depends=sorted(glob("ext/spill/*.h")),
        extra_compile_args=["-O3", "-std=c++20", "-Wall", "-Wextra", "-fvisibility=hidden"],
        extra_link_args=["-Wl,-z,now"],
        language="c++",
        optional=True,
    )


def residency() -> Extension:
    """`prism.gpu._residency`, from ext/cuda: a library that ranks on a GPU preload. It needs no CUDA to build."""
    return Extension(
        "prism.gpu._residency",
        sorted(glob("ext/cuda/*.cpp")),
        depends=sorted(glob("ext/cuda/*.h")),
        extra_compile_args=["-O3", "-std=c++20", "-Wall", "-Wextra", "-fvisibility=hidden"],
        extra_link_args=["-Wl,--version-script=ext/cuda/exports.map"],
        libraries=["dl", "pthread"],
        language="c++",
        optional=True,
    )


# Not ninja: its failures are RuntimeErrors, which setuptools does not forgive an optional extension.
setup(
    ext_modules=[extension("allocator"), extension("backend"), extension("fold"), engine(), spill(), residency()],
    cmdclass={"build_ext": BuildExtension.with_options(use_ninja=False)},
)
