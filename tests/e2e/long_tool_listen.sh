#!/bin/sh
# SPDX-License-Identifier: MIT
# test_tool_listen.sh with 100,000 requests for /metrics.
REQUESTS=100000 exec tests/e2e/test_tool_listen.sh
