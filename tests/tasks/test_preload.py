"""What the last stages need is there before they begin: nothing large is left to be imported by them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.tasks.history.making import make_samples, parquet
from tests.waiting import PATIENCE_S

_LAST_STAGES = """
import sys
from pathlib import Path
from tasks import preload
preload._import_all()
before = set(sys.modules)

from tasks.history.report.page import template
from tasks.history.samples import join_parts, measurements, read_part, to_parquet

part = read_part(Path(sys.argv[1]).read_bytes())
joined, repeated = join_parts([part, part])
assert (len(joined), repeated) == (4, 4), (len(joined), repeated)
assert len(measurements(joined, {0: 1})) == 1
to_parquet(joined)
template()
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before}))
"""


def test_samples_are_joined_without_pandas_and_the_report_compiles_no_template(tmp_path: Path) -> None:
    file = tmp_path / "samples.parquet"
    file.write_bytes(parquet(make_samples([[1.0, 2.0], [1.5, 2.5]])))
    done = subprocess.run(
        [sys.executable, "-c", _LAST_STAGES, str(file)], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
