/* SPDX-License-Identifier: MIT */
/* The page of spillway web, as it is served. */
	.section .rodata
	.globl web_page, web_page_end
	.hidden web_page, web_page_end
web_page:
	.incbin "tools/web/page.html"
web_page_end:
	.byte 0
	.section .note.GNU-stack, "", %progbits
