"""XLA:CPU on four host devices, in a process of its own: `python xla_devices.py FILE` answers a pickled list of cases.

A case is (HLO text, replica count, partition count, inputs per device); its answer is the result leaves per device, or
the message of XLA's error.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

COUNT = 4


def run_cases(cases: list[Any], where: Path) -> list[Any]:
    """Returns the answers of a fresh process."""
    path = where / "cases.pickle"
    path.write_bytes(pickle.dumps(cases))
    flags = f"--xla_force_host_platform_device_count={COUNT}"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
    subprocess.run([sys.executable, __file__, str(path)], env=environment, check=True, timeout=240)
    return pickle.loads(path.read_bytes())


def _run(text: str, replicas: int, partitions: int, inputs: list[Any]) -> list[Any]:
    import jax
    import numpy as np
    from jax._src.lib import xla_client
    from jax._src.lib.mlir import ir  # noqa: F401  (loads the dialects)

    devices = jax.devices()[: replicas * partitions]
    module = xla_client.hlo.hlo_module_from_text(text)
    computation = xla_client.XlaComputation(module.as_serialized_hlo_module_proto())
    program = xla_client._xla.mlir.xla_computation_to_mlir_module(computation)
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = replicas, partitions
    build = options.executable_build_options
    build.num_replicas, build.num_partitions = replicas, partitions
    build.use_spmd_partitioning = partitions > 1
    numbers = np.array([d.id for d in devices]).reshape(replicas, partitions)
    options.device_assignment = xla_client.DeviceAssignment.create(numbers)
    program = devices[0].client.compile_and_load(program, xla_client.DeviceList(tuple(devices)), options)
    columns = []
    for arguments in zip(*inputs, strict=True):
        shards = [jax.device_put(np.asarray(a), d) for a, d in zip(arguments, devices, strict=True)]
        mesh = jax.sharding.Mesh(np.array(devices), ("d",))
        sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
        whole = (len(devices) * arguments[0].shape[0], *arguments[0].shape[1:])
        columns.append(jax.make_array_from_single_device_arrays(whole, sharding, shards))
    results = program.execute_sharded(columns).disassemble_into_single_device_arrays()
    return [[np.asarray(column[n]) for column in results] for n in range(len(devices))]


def main(path: str) -> None:
    """Answers the cases of a file, in place."""
    file, answers = Path(path), []
    for case in pickle.loads(file.read_bytes()):
        try:
            answers.append(_run(*case))
        except Exception as error:
            answers.append(str(error))
    file.write_bytes(pickle.dumps(answers))


if __name__ == "__main__":
    main(sys.argv[1])
