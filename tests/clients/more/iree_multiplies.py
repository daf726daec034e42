# SPDX-License-Identifier: MIT
"""iree_multiplies.py: IREE multiplies each of twelve matrices with the next and adds a third, and the
results are compared with numpy. Prints a checksum of all results and the memory that it takes."""
import iree.compiler
import iree.runtime
import numpy as np
from results import checksum

MATRICES, SIDE, TURNS = 12, 256, 2
STEP = """
func.func @step(%a: tensor<NxNxf32>, %b: tensor<NxNxf32>, %c: tensor<NxNxf32>) -> tensor<NxNxf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<NxNxf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<NxNxf32>) -> tensor<NxNxf32>
  %product = linalg.matmul ins(%a, %b : tensor<NxNxf32>, tensor<NxNxf32>)
                           outs(%start : tensor<NxNxf32>) -> tensor<NxNxf32>
  %sum = arith.addf %product, %c : tensor<NxNxf32>
  return %sum : tensor<NxNxf32>
}
""".replace("NxN", f"{SIDE}x{SIDE}")


def main():
    code = iree.compiler.compile_str(STEP, target_backends=["cuda"],
                                     extra_args=["--iree-cuda-target=sm_80"])
    config = iree.runtime.Config("cuda")
    context = iree.runtime.SystemContext(config=config)
    context.add_vm_module(iree.runtime.VmModule.copy_buffer(context.instance, code))
    step = context.modules.module.step
    random = np.random.default_rng(9)
    hosts = [random.random((SIDE, SIDE), dtype=np.float32) / SIDE for _ in range(MATRICES)]
    matrices = [iree.runtime.asdevicearray(config.device, host) for host in hosts]
    for _ in range(TURNS):
        for i in range(MATRICES):
            others = (i + 1) % MATRICES, (i + 2) % MATRICES
            matrices[i] = step(matrices[i], *(matrices[k] for k in others))
            hosts[i] = hosts[i] @ hosts[others[0]] + hosts[others[1]]
    got = (matrix.to_host() for matrix in matrices)
    print(f"iree_multiplies checksum={checksum(got, hosts)}")


main()
