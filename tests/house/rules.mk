# tests/house: the code against what is said of it.
house_tests := tests/house/test_documents.py tests/house/test_unused.py tests/house/test_registry_callers.py tests/house/test_rooms.py tests/house/test_layers_catches.sh tests/house/test_locks.py
