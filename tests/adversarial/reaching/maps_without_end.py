"""Cheats: maps pages of a file with a long name faster than anybody can read the list of them."""

import ctypes
import subprocess
import tempfile
from pathlib import Path

from tests.adversarial.honest.honest import custom_kernel  # noqa: F401

ENDLESS = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
static int file;
static void *map(void *none) {
    for (char *at = (char *)0x100000000000, *behind = at - (30000 << 13);; at += 1 << 13, behind += 1 << 13) {
        mmap(at, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0);
        if (behind >= (char *)0x100000000000)
            munmap(behind, 4096);
    }
    return none;
}
int start(const char *path) {
    pthread_t thread;
    file = open(path, O_RDONLY);
    return pthread_create(&thread, 0, map, 0);
}
"""
folder = Path(tempfile.gettempdir())
deep = folder.joinpath(*["x" * 250] * 12)  # long names make long lists
deep.mkdir(parents=True)
(deep / "endless.so").write_bytes(bytes(4096))
(folder / "endless.c").write_text(ENDLESS)
subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", folder / "start", folder / "endless.c", "-lpthread"], check=True)
ctypes.CDLL(str(folder / "start")).start(bytes(deep / "endless.so"))
