/* SPDX-License-Identifier: MIT */
/*
 * Completion: the words that may stand next on a command line that is being typed. It is made from
 * the option tables that the parser itself reads.
 *
 * A shell asks with `spillway complete WORD...`; the last WORD is the one under the cursor. Each
 * line of the answer is WORD or WORD<TAB>MEANING. @files and @programs stand for the names of files
 * and of programs, which the shell itself knows. Example:
 *
 *     $ spillway complete set --sh
 *     --share<TAB>Share of GPU time
 */
#ifndef SPILLWAY_COMPLETION_H
#define SPILLWAY_COMPLETION_H

/* Has arguments_read() answer for its command, and end the tool, from now on. */
void completion_begin(void);
/* Writes one line of an answer if the word begins as typed. meaning NULL: the word alone. */
void completion_offer(const char *typed, const char *word, const char *meaning);

#endif
