/* SPDX-License-Identifier: MIT */
/* The page of spillway web, as it is served. */
	.section .rodata
	.globl web_page
	.hidden web_page
web_page:
	.incbin "tools/web/page.html"
	.byte 0
	.section .note.GNU-stack, "", %progbits
