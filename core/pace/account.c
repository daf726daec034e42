/* The account of GPU time. */
#include "core/pace/account.h"

void account_gain(struct account *account, uint64_t now_ns, uint32_t share, uint64_t window_ns)
{
	int64_t cap = (int64_t)((unsigned __int128)window_ns * share / ACCOUNT_FULL_SHARE);
	unsigned __int128 gain;
	uint64_t elapsed = now_ns - account->last_ns;

	if (!account->last_ns || now_ns < account->last_ns)
		elapsed = 0;
	account->last_ns = now_ns;
	gain = (unsigned __int128)elapsed * share + account->remainder;
	account->remainder = (uint32_t)(gain % ACCOUNT_FULL_SHARE);
	gain /= ACCOUNT_FULL_SHARE;
	/* Compared before it is added: elapsed may be years. */
	if (gain > (unsigned __int128)(cap - account->balance_ns))
		account->balance_ns = cap;
	else
		account->balance_ns += (int64_t)gain;
}

void account_pay(struct account *account, uint64_t busy_ns)
{
	if (busy_ns > (uint64_t)(account->balance_ns + ACCOUNT_MAX_DEBT_NS))
		account->balance_ns = -ACCOUNT_MAX_DEBT_NS;
	else
		account->balance_ns -= (int64_t)busy_ns;
}

uint64_t account_slot(const struct account *account, uint32_t share)
{
	unsigned __int128 debt;

	if (account->balance_ns >= 0 || !share)
		return 0;
	debt = (unsigned __int128)(-account->balance_ns) * ACCOUNT_FULL_SHARE;
	return (uint64_t)((debt + share - 1) / share);
}
