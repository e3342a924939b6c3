"""A fork server gives its children the runtime as `torch`, although it may import the script."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import multiprocessing, torch
from torch.utils.data import DataLoader, Dataset
class Squares(Dataset):
    def __len__(self): return 4
    def __getitem__(self, i): return torch.full((1,), float(i * i))
if __name__ == "__main__":
    multiprocessing.set_start_method("forkserver")
    print([batch.tolist() for batch in DataLoader(Squares(), batch_size=2, num_workers=1)])
"""
AS_PYTHON_3_14 = """
import subprocess
import sys
from multiprocessing import spawn
prepared = spawn.get_preparation_data
def with_script(name):
    data = prepared(name)
    return data | {"main_path": data.get("init_main_from_path")}
spawn.get_preparation_data = with_script
from gradscope.cli import main
sys.argv = ["gradscope", "trace", "-q", "-o", "trace.json", "--on", "gradscope", "script.py"]
main()
"""


def test_a_loader_has_workers_where_a_fork_server_imports_the_script_first(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)

    ended = subprocess.run(
        [sys.executable, "-c", AS_PYTHON_3_14],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ended.returncode, ended.stdout) == (0, "[[[0.0], [1.0]], [[4.0], [9.0]]]\n"), ended
