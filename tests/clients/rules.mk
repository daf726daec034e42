# tests/clients
