/* SPDX-License-Identifier: MIT */
/*
 * A stand-in for libcudadevrt.a, which programs give to cuLinkAdd*() by its file: the functions
 * about grids that are launched cooperatively, as PTX. The handle of a grid is the address of its
 * two words of 64 bits. The second counts the blocks that came to a barrier since the launch.
 */
#include <string.h>

#include "tests/softgpu/link_text.h"

/* The codes of cudaError_t. */
#define SUCCESS       "0"
#define INVALID_VALUE "1"

/* Multiplies up %r<first> to %r<first + 2>, which are read from the register `name`, in %rd. */
#define READ_3(name)                                                                               \
	"	mov.u32 %x, " name ".x;\n	mov.u32 %y, " name ".y;\n	mov.u32 %z, " name \
	".z;\n"
#define PRODUCT(name, into)                       \
	READ_3(name)                              \
	"	mul.wide.u32 " into ", %x, %y;\n" \
	"	cvt.u64.u32 %wide, %z;\n"               \
	"	mul.lo.u64 " into ", " into ", %wide;\n"
/* The index of a thread in its block, or of a block in its grid. */
#define RANK(index, count, into)                   \
	READ_3(index)                              \
	"	mov.u32 %nx, " count ".x;\n"       \
	"	mov.u32 %ny, " count ".y;\n"       \
	"	mad.lo.u32 %y, %z, %ny, %y;\n"           \
	"	cvt.u64.u32 %wide, %x;\n"                \
	"	mul.wide.u32 " into ", %y, %nx;\n" \
	"	add.u64 " into ", " into ", %wide;\n"
#define REGISTERS                            \
	"	.reg .pred %p, %first;\n"          \
	"	.reg .b32 %x, %y, %z, %nx, %ny;\n" \
	"	.reg .b64 %handle, %wide, %blocks, %threads, %rank, %old, %goal, %at;\n"

/* Stores a word of 32 bits where the caller wants it; a NULL there means that it does not. */
#define STORE(parameter, value, label)                \
	"	ld.param.u64 %at, [" parameter "];\n" \
	"	setp.eq.u64 %p, %at, 0;\n"                  \
	"	@%p bra " label ";\n"                 \
	"	st.u32 [%at], " value ";\n" label ":\n"
#define RETURN(code) "	st.param.b32 [result], " code ";\n	ret;\n"
/* Leaves with an error where the grid is none that was launched cooperatively. */
#define CHECK_HANDLE                         \
	"	ld.param.u64 %handle, [handle];\n" \
	"	setp.ne.u64 %p, %handle, 0;\n"     \
	"	@%p bra valid;\n" RETURN(INVALID_VALUE) "valid:\n"
#define SYNCHRONIZE(name)                                                                    \
	".weak .func (.param .b32 result) " name "(.param .b64 handle, .param .b32 flags)\n" \
	"{\n" REGISTERS CHECK_HANDLE "	bar.sync 0;\n" RANK(                                 \
	    "%tid", "%ntid", "%rank") "	setp.ne.u64 %first, %rank, 0;\n"                     \
	                              "	@%first bra together;\n" PRODUCT(                    \
	                                  "%nctaid",                                         \
	                                  "%blocks") "	membar.gl;\n"                         \
	                                             "	atom.add.u64 %old, [%handle+8], 1;\n" \
	                                             "	div.u64 %goal, %old, %blocks;\n"      \
	                                             "	add.u64 %goal, %goal, 1;\n"           \
	                                             "	mul.lo.u64 %goal, %goal, %blocks;\n"  \
	                                             "wait:\n"                               \
	                                             "	ld.volatile.u64 %old, [%handle+8];\n" \
	                                             "	setp.lt.u64 %p, %old, %goal;\n"       \
	                                             "	@%p bra wait;\n"                      \
	                                             "	membar.gl;\n"                         \
	                                             "together:\n"                           \
	                                             "	bar.sync 0;\n" RETURN(SUCCESS) "}\n"

static const char device_runtime[] =
    ".version 6.0\n.target sm_60\n.address_size 64\n"
    /* The scope of a grid is 1. */
    ".weak .func (.param .b64 result) cudaCGGetIntrinsicHandle(.param .b32 scope)\n"
    "{\n" REGISTERS "	mov.u32 %x, %envreg2;\n"
    "	mov.u32 %y, %envreg1;\n"
    "	mov.b64 %handle, {%x, %y};\n"
    "	ld.param.u32 %z, [scope];\n"
    "	setp.eq.u32 %p, %z, 1;\n"
    "	selp.b64 %handle, %handle, 0, %p;\n"
    "	st.param.b64 [result], %handle;\n"
    "	ret;\n"
    "}\n" SYNCHRONIZE("cudaCGSynchronize") SYNCHRONIZE(
        "cudaCGSynchronizeGrid") ".weak .func (.param .b32 result) cudaCGGetSize(.param .b64 "
                                 "threads, .param .b64 grids, "
                                 ".param .b64 handle)\n"
                                 "{\n" REGISTERS CHECK_HANDLE PRODUCT("%nctaid", "%blocks") PRODUCT(
                                     "%ntid",
                                     "%threads") "	mul.lo.u64 %threads, %threads, %blocks;\n"
                                                 "	cvt.u32.u64 %x, %threads;\n" STORE(
                                                     "threads", "%x",
                                                     "sized") "	mov.u32 %x, 1;\n" STORE("grids",
                                                                                        "%x",
                                                                                        "counted")
                                                     RETURN(
                                                         SUCCESS) "}\n"
                                                                  ".weak .func (.param .b32 "
                                                                  "result) cudaCGGetRank(.param "
                                                                  ".b64 thread, .param .b64 grid, "
                                                                  ".param .b64 handle)\n"
                                                                  "{\n" REGISTERS CHECK_HANDLE RANK(
                                                                      "%ctaid", "%nctaid", "%rank")
                                                                      PRODUCT("%ntid", "%threads") "	mul.lo.u64 %rank, %rank, %threads;\n" RANK(
                                                                          "%tid", "%ntid",
                                                                          "%old") "	add.u64 "
                                                                                  "%rank, %rank, "
                                                                                  "%old;\n"
                                                                                  "	cvt.u32."
                                                                                  "u64 %x, "
                                                                                  "%rank;\n" STORE("thread", "%x", "ranked") "	mov.u32 %x, 0;\n" STORE(
                                                                                      "grid", "%x",
                                                                                      "numbered")
                                                                                      RETURN(
                                                                                          SUCCESS) "}\n";

const char *device_runtime_text(const void *library, size_t size)
{
	static const char magic[] = "!<arch>\n", member[] = "cuda_device_runtime.o";
	bool is_archive = size > strlen(magic) && !memcmp(library, magic, strlen(magic));
	return is_archive && memmem(library, size, member, strlen(member)) ? device_runtime : NULL;
}
