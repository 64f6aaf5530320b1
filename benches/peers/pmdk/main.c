/*
 * pmdk-bench [--reps R] [--budget S] [--threads T] [--prefault 0|1]
 *            [--serve 1] BENCH VARIANT N
 * A VARIANT that begins with "volatile" runs the workload on plain memory,
 * without transactions.
 */
#include "common.h"
#include <limits.h>
#include <malloc.h>

static const struct {
	const char *name;
	void (*run)(void);
} benches[] = {
	{ "sps", bench_sps },
	{ "sps_recovery", bench_sps_recovery },
	{ "nbody", bench_nbody },
	{ "fannkuch", bench_fannkuch },
	{ "binary_trees", bench_binary_trees },
	{ "fill_heap", bench_fill_heap },
	{ "fill_heap_open", bench_fill_heap_open },
	{ "alloc", bench_alloc },
	{ "txn_empty", bench_txn },
	{ "txn_small", bench_txn },
	{ "txn_objects", bench_txn },
}, children[] = {
	{ "sps_crash", child_sps_crash },
	{ "sps_reopen", child_sps_reopen },
	{ "fill", child_fill },
	{ "fill_reopen", child_fill_reopen },
};

int main(int argc, char **argv)
{
	const char *child = NULL;
	int i = 1;
	/*
	 * PMDK keeps its transaction bookkeeping on the C heap; do not give
	 * those pages back to the kernel after each transaction.
	 */
	mallopt(M_TRIM_THRESHOLD, INT_MAX);
	mallopt(M_TOP_PAD, 64 << 20);
	for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
		if (!strcmp(argv[i], "--reps"))
			opt.reps = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--budget"))
			opt.budget = atof(argv[i + 1]);
		else if (!strcmp(argv[i], "--threads"))
			opt.threads = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--prefault"))
			opt.prefault = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--serve"))
			opt.serve = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--child"))
			child = argv[i + 1];
		else
			die("unknown option %s", argv[i]);
	}
	if (argc - i != 3 || opt.reps < 1 || opt.reps > MAX_REPS || opt.threads < 1)
		die("usage: [--reps R] [--budget S] [--threads T] "
			"[--prefault 0|1] [--serve 1] BENCH VARIANT N");
	opt.bench = argv[i];
	opt.variant = argv[i + 1];
	opt.n = strtoull(argv[i + 2], NULL, 10);
	opt.is_volatile = !strncmp(opt.variant, "volatile", 8);

	if (child) {
		const char *p = getenv("PMDK_BENCH_CHILD_POOL");
		if (!p)
			die("--child is internal");
		pool_set_path(p);
		for (size_t k = 0; k < sizeof(children) / sizeof(children[0]); k++)
			if (!strcmp(child, children[k].name)) {
				children[k].run();
				return 0;
			}
		die("unknown child %s", child);
	}
	for (size_t k = 0; k < sizeof(benches) / sizeof(benches[0]); k++)
		if (!strcmp(opt.bench, benches[k].name)) {
			benches[k].run();
			return 0;
		}
	die("unknown benchmark %s", opt.bench);
}
