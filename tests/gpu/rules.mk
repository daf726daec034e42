# tests/gpu
