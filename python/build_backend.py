"""setuptools as the build backend, in a copy of the project: it leaves build/ and an .egg-info beside what it builds."""

import contextlib
import os
import shutil
import tempfile

from setuptools import build_meta
from setuptools.build_meta import (  # noqa: F401: an editable installation is of this directory
    build_editable,
    get_requires_for_build_editable,
    prepare_metadata_for_build_editable,
)

LEFT_OUT = shutil.ignore_patterns("__pycache__", "build", "*.egg-info", "examples", "tests")


@contextlib.contextmanager
def _copy():
    project = os.getcwd()
    with tempfile.TemporaryDirectory() as directory:
        copy = os.path.join(directory, "pymemwright")
        shutil.copytree(project, copy, ignore=LEFT_OUT)
        os.chdir(copy)
        try:
            yield
        finally:
            os.chdir(project)


def get_requires_for_build_wheel(config_settings=None):
    with _copy():
        return build_meta.get_requires_for_build_wheel(config_settings)


def get_requires_for_build_sdist(config_settings=None):
    with _copy():
        return build_meta.get_requires_for_build_sdist(config_settings)


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    into = os.path.abspath(metadata_directory)
    with _copy():
        return build_meta.prepare_metadata_for_build_wheel(into, config_settings)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    into = os.path.abspath(wheel_directory)
    metadata = metadata_directory and os.path.abspath(metadata_directory)
    with _copy():
        return build_meta.build_wheel(into, config_settings, metadata)


def build_sdist(sdist_directory, config_settings=None):
    into = os.path.abspath(sdist_directory)
    with _copy():
        return build_meta.build_sdist(into, config_settings)
