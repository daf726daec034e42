# SPDX-License-Identifier: MIT
"""openmm_moves.py: OpenMM's CUDA platform moves atoms of argon for 20 steps. The energy is that of its
reference platform. Prints a checksum of all positions and velocities."""
import hashlib

import numpy as np
import openmm

SIDE, GAP = 15, 0.37


def state(platform, positions, steps, properties):
    system, force = openmm.System(), openmm.NonbondedForce()
    force.setNonbondedMethod(openmm.NonbondedForce.CutoffPeriodic)
    force.setCutoffDistance(0.9)
    box = SIDE * GAP
    system.setDefaultPeriodicBoxVectors((box, 0, 0), (0, box, 0), (0, 0, box))
    for _ in positions:
        system.addParticle(39.9)
        force.addParticle(0, 0.34, 0.99)
    system.addForce(force)
    integrator = openmm.VerletIntegrator(0.002)
    context = openmm.Context(system, integrator, openmm.Platform.getPlatformByName(platform), properties)
    context.setPositions(positions)
    integrator.step(steps)
    now = context.getState(getPositions=True, getVelocities=True, getEnergy=True)
    energy = now.getPotentialEnergy()._value
    return energy, np.array(now.getPositions()._value), np.array(now.getVelocities()._value)


def main():
    openmm.Platform.loadPluginsFromDirectory(openmm.Platform.getDefaultPluginsDirectory())
    assert "CUDA" in [openmm.Platform.getPlatform(i).getName()
                      for i in range(openmm.Platform.getNumPlatforms())], \
        openmm.Platform.getPluginLoadFailures()
    positions = np.stack(np.meshgrid(*[np.arange(SIDE) * GAP] * 3), -1).reshape(-1, 3)
    positions += np.random.default_rng(1).normal(0, 0.01, positions.shape)
    energy, *got = state("CUDA", positions, 20, {"DeterministicForces": "true"})
    wanted, *_ = state("CPU", positions, 20, {})
    assert abs(energy - wanted) < 1e-3 * abs(wanted), (energy, wanted)
    checksum = hashlib.sha256(b"".join(each.tobytes() for each in got))
    print(f"openmm_moves checksum={checksum.hexdigest()[:16]}")


main()
