"""Builds the C++ extensions; everything else about the package stands in pyproject.toml."""

from __future__ import annotations

import os
import shutil
import subprocess
from glob import glob
from pathlib import Path

from setuptools import Extension, setup
from setuptools.errors import CompileError
from torch.utils.cpp_extension import BuildExtension, CppExtension


def extension(name: str) -> CppExtension:
    """`prism.gpu._NAME` from ext/torch/NAME.cpp."""
    return CppExtension(
        f"prism.gpu._{name}",
        [f"ext/torch/{name}.cpp"],
        depends=sorted(glob("ext/torch/*.h")),
        # Python's own flags may have -g, and to describe torch's types takes a quarter of the time; lines are enough.
        extra_compile_args=["-O3", "-g1", "-std=c++20", "-Wall", "-Wextra", "-Wno-unused-parameter"],
        optional=True,  # without a compiler PRISM runs with less: prism.gpu.meter.memory, prism.gpu.group.python_group
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


NVCC = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
ARCHITECTURES = ("80", "90")


def toolkit() -> Path | None:
    """Where CUDA's headers and runtime are; nvcc on the PATH may be a script that lies elsewhere."""
    if NVCC is None:
        return None
    folders = (Path(NVCC).resolve().parents[1], Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")))
    return next((folder for folder in folders if (folder / "include" / "cuda_runtime_api.h").exists()), None)


def device() -> list[Extension]:
    """`prism.gpu._device`, from ext/nccl/cuda and ext/nccl/shim: a library that sandbox ranks on a GPU preload."""
    cuda = toolkit()
    if cuda is None:
        return []
    extension = Extension(
        "prism.gpu._device",
        [*sorted(glob("ext/nccl/cuda/*.cpp")), *sorted(glob("ext/nccl/shim/*.cpp"))],
        depends=sorted(glob("ext/nccl/*.h") + glob("ext/nccl/cuda/*") + glob("ext/nccl/shim/*.h")),
        include_dirs=[str(cuda / "include")],
        extra_compile_args=["-O2", "-std=c++20", "-Wall", "-Wextra", "-ffp-contract=off", "-fvisibility=hidden"],
        # CUDA's runtime goes in, as the library is loaded before any other is.
        library_dirs=[str(cuda / "lib64"), str(cuda / "targets/x86_64-linux/lib")],
        extra_link_args=["-Wl,--version-script=ext/nccl/shim/exports.map"],
        libraries=["cudart_static", "dl", "pthread", "rt"],
        language="c++",
        optional=True,
    )
    return [extension]


class Build(BuildExtension):
    """With nvcc for what is CUDA, and without torch's part in it, which wants a torch with CUDA."""

    def build_extension(self, ext: Extension) -> None:
        if ext.name == "prism.gpu._device":
            ext.extra_objects = [self._compiled(source) for source in sorted(glob("ext/nccl/cuda/*.cu"))]
        super().build_extension(ext)

    def _compiled(self, source: str) -> str:
        target = Path(self.build_temp) / Path(source).with_suffix(".cu.o")
        headers = [*glob("ext/nccl/*.h"), *glob("ext/nccl/cuda/*.h"), *glob("ext/nccl/cuda/*.cuh"), source]
        if target.exists() and target.stat().st_mtime > max(Path(file).stat().st_mtime for file in headers):
            return str(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        codes = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in ARCHITECTURES]
        options = ["-std=c++20", "-O3", "--threads=0", "--expt-relaxed-constexpr", "-fmad=false", "-Xcompiler=-fPIC"]
        command = [str(NVCC), *options, "-Xcompiler=-fvisibility=hidden", *codes, "-c", source, "-o", str(target)]
        if subprocess.run(command, check=False).returncode != 0:
            raise CompileError(f"nvcc could not compile {source}")  # which an optional extension is forgiven
        return str(target)


# An extension for each CPU that may be used, the longest first. Not ninja: its failures are RuntimeErrors, which
# setuptools does not forgive an optional extension.
setup(
    ext_modules=[*device(), *map(extension, ("fold", "backend", "allocator")), engine(), residency(), spill()],
    cmdclass={"build_ext": Build.with_options(use_ninja=False)},
    options={"build_ext": {"parallel": len(os.sched_getaffinity(0))}},
)
