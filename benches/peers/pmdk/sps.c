/*
 * sps: n random swaps of an array of n u64, all in one transaction.
 *   field    8-byte snapshot of each element right before it is written
 *   tuned    one snapshot of the whole array up front
 *   field_log, tuned_log
 *            same, with the undo log preallocated
 *            (pmemobj_tx_log_append_buffer) outside the timed part
 * sps_recovery: the process is killed after the last swap and before commit;
 * timed is pmemobj_open, recovery included, in a fresh process.
 */
#include "common.h"
#include <signal.h>
#include <unistd.h>

struct sps {
	PMEMobjpool *pop;
	uint64_t *a;
	uint64_t n;
	enum log_mode mode;
	void *logbuf;
	size_t logbuf_size;
	uint64_t expected;
};

static inline __attribute__((always_inline)) void
swaps(uint64_t *a, uint64_t n, enum log_mode mode)
{
	uint64_t seed = SEED;
	for (uint64_t k = 0; k < n; k++) {
		uint64_t i = rng_below(&seed, n), j = rng_below(&seed, n);
		if (mode == LOG_FIELD) {
			tx_log(&a[i], sizeof(*a));
			tx_log(&a[j], sizeof(*a));
		}
		uint64_t t = a[i];
		a[i] = a[j];
		a[j] = t;
	}
}

static void swaps_dispatch(struct sps *s)
{
	if (s->mode == LOG_WHOLE)
		tx_log(s->a, s->n * sizeof(uint64_t));
	if (s->mode == LOG_FIELD)
		swaps(s->a, s->n, LOG_FIELD);
	else
		swaps(s->a, s->n, LOG_NONE);
}

static uint64_t checksum(const uint64_t *a, uint64_t n)
{
	uint64_t sum = 0;
	for (uint64_t i = 0; i < n; i++)
		sum += a[i] * (i + 1);
	return sum;
}

static void fill(struct sps *s)
{
	for (uint64_t i = 0; i < s->n; i++)
		s->a[i] = i;
	if (s->pop)
		pmemobj_persist(s->pop, s->a, s->n * sizeof(uint64_t));
}

static double rep(void *ctx)
{
	struct sps *s = ctx;
	fill(s);
	double t = now();
	if (s->pop) {
		tx_begin(s->pop);
		if (s->logbuf && pmemobj_tx_log_append_buffer(
				TX_LOG_TYPE_SNAPSHOT, s->logbuf, s->logbuf_size))
			die("append_buffer: %s", pmemobj_errormsg());
	}
	swaps_dispatch(s);
	if (s->pop)
		tx_commit();
	t = now() - t;
	uint64_t sum = checksum(s->a, s->n);
	if (sum != s->expected)
		die("sps: wrong result");
	checksum_int(sum);
	return t;
}

static void setup(struct sps *s)
{
	s->n = opt.n;
	if (!strncmp(opt.variant, "field", 5))
		s->mode = LOG_FIELD;
	else if (!strncmp(opt.variant, "tuned", 5))
		s->mode = LOG_WHOLE;
	else if (opt.is_volatile)
		s->mode = LOG_NONE;
	else
		die("sps: unknown variant");
}

static void make_pool(struct sps *s)
{
	/*
	 * A snapshot of 8 bytes takes 64 bytes of undo log, and PMDK doubles
	 * the log each time it runs out.
	 */
	size_t log = s->mode == LOG_FIELD ? 64 * s->n : 9 * s->n;
	s->pop = pool_make(32 * MiB + 8 * s->n + 5 * log / 2);
	s->a = pool_array(s->pop, s->n * sizeof(uint64_t));
	if (strstr(opt.variant, "_log")) {
		PMEMoid oid;
		s->logbuf_size = log + 4096;
		if (pmemobj_alloc(s->pop, &oid, s->logbuf_size, 0, NULL, NULL))
			die("log: %s", pmemobj_errormsg());
		s->logbuf = pmemobj_direct(oid);
	}
}

void bench_sps(void)
{
	struct sps s = { 0 };
	struct samples out;
	setup(&s);
	uint64_t *v = malloc(s.n * sizeof(*v));
	struct sps plain = { .a = v, .n = s.n };
	fill(&plain);
	swaps_dispatch(&plain);
	s.expected = checksum(v, s.n);
	if (s.mode == LOG_NONE) {
		s.a = v;
	} else {
		free(v);
		make_pool(&s);
	}
	measure(rep, &s, &out);
	if (s.pop)
		pool_drop(s.pop);
	emit("sps", &out, s.n, "checksum %lu", s.expected);
}

/* The array of a pool that another process made. */
static uint64_t *find_array(PMEMobjpool *pop)
{
	PMEMoid root = pmemobj_root(pop, sizeof(uint64_t));
	return (uint64_t *)((char *)pop + *(uint64_t *)pmemobj_direct(root));
}

void child_sps_crash(void)
{
	struct sps s = { 0 };
	setup(&s);
	make_pool(&s);
	uint64_t *root = pmemobj_direct(pmemobj_root(s.pop, sizeof(uint64_t)));
	*root = (uint64_t)((char *)s.a - (char *)s.pop);
	pmemobj_persist(s.pop, root, sizeof(*root));
	fill(&s);
	tx_begin(s.pop);
	swaps_dispatch(&s);
	kill(getpid(), SIGKILL);
	pause();
}

void child_sps_reopen(void)
{
	double t = now();
	PMEMobjpool *pop = pmemobj_open(pool_path(), LAYOUT);
	t = now() - t;
	if (!pop)
		die("open: %s", pmemobj_errormsg());
	uint64_t *a = find_array(pop);
	for (uint64_t i = 0; i < opt.n; i++)
		if (a[i] != i)
			die("sps_recovery: a[%lu] = %lu", i, a[i]);
	pmemobj_close(pop);
	printf("%.9f\n", t);
}

static double rep_recovery(void *ctx)
{
	double recover, clean;
	struct samples *clean_open = ctx;
	child_run("sps_crash", NULL, 0);
	if (child_run("sps_reopen", &recover, 1) != 1)
		die("sps_recovery: no answer");
	/* The child has compared each element with its number. */
	uint64_t sum = 0;
	for (uint64_t i = 0; i < opt.n; i++)
		sum += i * (i + 1);
	checksum_int(sum);
	/* The same pool once more, with nothing to recover. */
	if (!opt.serve) {
		if (child_run("sps_reopen", &clean, 1) != 1)
			die("sps_recovery: no answer");
		clean_open->s[clean_open->n++ % MAX_REPS] = clean;
	}
	unlink(pool_path());
	return recover;
}

void bench_sps_recovery(void)
{
	struct samples out, clean = { 0 };
	pool_path();
	measure(rep_recovery, &clean, &out);
	emit("sps_recovery", &out, opt.n,
		"array verified; open of the same pool without recovery %.6f s",
		median(&clean));
}
