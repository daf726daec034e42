# SPDX-License-Identifier: MIT
# The share of a device that processes held, from the samples of `softgpu-truth --watch`.
#
# from, to  the time looked at, ns; a missing end is the last sample
# skip      so many ns after `from` no window begins
# window    ns; the most and the least share over such windows within the time are told, too
# pids      of processes, with blanks; none: all
# device    0
#
# Prints "held=PERCENT most=PERCENT least=PERCENT".
BEGIN {
	FS = "\t"
	device += 0
	count = split(pids, list, " ")
	for (i = 1; i <= count; i++)
		chosen[list[i]] = 1
}

NR > 1 && $2 == device && (!count || $3 in chosen) {
	if ($1 != time[n])
		time[++n] = $1
	total += $4 - last[$3] # a process that has ended keeps what it used
	last[$3] = $4
	busy[n] = total
}

# Busy time at a time between two samples; i is the later one.
function between(t, i,    part) {
	if (i <= 1)
		return busy[1]
	part = (t - time[i - 1]) / (time[i] - time[i - 1])
	return busy[i - 1] + part * (busy[i] - busy[i - 1])
}

function at(t,    i) {
	for (i = 1; i < n && time[i] < t; i++)
		continue
	return between(t, i)
}

END {
	if (!n)
		exit 1
	if (from + 0 < time[1])
		from = time[1]
	if (!to || to + 0 > time[n])
		to = time[n]
	if (from >= to)
		exit 1
	held = (at(to) - at(from)) / (to - from)
	least = 2
	for (i = j = 1; window && i <= n; i++) {
		if (time[i] < from + skip)
			continue
		if (time[i] + window > to)
			break
		while (time[j] < time[i] + window)
			j++
		share = (between(time[i] + window, j) - busy[i]) / window
		most = share > most ? share : most
		least = share < least ? share : least
	}
	if (least > 1.5)
		most = least = held
	printf "held=%.2f most=%.2f least=%.2f\n", held * 100, most * 100, least * 100
}
