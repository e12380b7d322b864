"""Cheats: starts a chain of processes, each of which forks the next and ends before anybody can find it in /proc."""

import subprocess
import tempfile
from pathlib import Path

from tests.adversarial.honest.honest import custom_kernel  # noqa: F401

CHAIN = r"""
#include <unistd.h>
int main(void) {
    setsid();
    for (int hops = 0; hops < 16000 && (hops < 9 || getppid() != 1); hops++) {
        if (fork() != 0)
            _exit(0);
        usleep(500);
    }
    sleep(20);
    return 0;
}
"""
folder = Path(tempfile.gettempdir())
(folder / "chain.c").write_text(CHAIN)
subprocess.run(["cc", "-O2", "-static", "-o", folder / "chain", folder / "chain.c"], check=True)
subprocess.Popen([folder / "chain"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print("program", folder / "chain", flush=True)
