# tests/softgpu
