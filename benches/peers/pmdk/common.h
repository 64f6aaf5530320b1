/* Shared helpers: options, timing, statistics, JSON output, pools, children. */
#ifndef COMMON_H
#define COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <libpmem.h>
#include <libpmemobj.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYOUT "pmdk-bench"
#define MiB (1024UL * 1024)
#define MAX_REPS 101
#define SEED 42

/* When and what a kernel snapshots before it writes. */
enum log_mode {
	LOG_NONE,  /* nothing: volatile memory, or already covered by LOG_WHOLE */
	LOG_FIELD, /* each location right before each write to it */
	LOG_BODY,  /* n-body only: each body at the start of a step */
	LOG_WHOLE, /* the whole structure once, up front */
};

struct opts {
	const char *bench, *variant;
	uint64_t n;
	int threads;
	int reps;      /* wanted repetitions, without the warm-up */
	double budget; /* stop repeating after this many seconds */
	int prefault;  /* touch every page of the pool before timing */
	int is_volatile;
	int serve;     /* repetitions are asked for on standard input */
};
extern struct opts opt;

struct samples {
	int n;
	double s[MAX_REPS];
};

void die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
double now(void);

/*
 * Calls rep() once as a warm-up and then up to opt.reps times, until the budget
 * is used up; rep() returns the seconds of its timed part. A warm-up longer
 * than a quarter of the budget counts as a repetition.
 *
 * With --serve it never returns: each line on standard input is a number of
 * repetitions, which are answered by one line
 *   {"seconds":SUM,"checksum":OF_THE_LAST}
 * and at the end of the input the process exits.
 */
void measure(double (*rep)(void *), void *ctx, struct samples *out);
/* Set the result of a repetition. rep() calls one of them, if there is one. */
void checksum_int(uint64_t sum);
void checksum_float(double sum);
double median(const struct samples *);
/* One JSON line. `ops` is what the ns_per_op field divides by. */
void emit(const char *bench, const struct samples *, double ops,
	const char *note_fmt, ...) __attribute__((format(printf, 4, 5)));

/* splitmix64, mapped to [0, n) by the high half of a 128-bit product. */
static inline uint64_t rng_next(uint64_t *s)
{
	uint64_t z = (*s += 0x9E3779B97F4A7C15ull);
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
	return z ^ (z >> 31);
}
static inline uint64_t rng_below(uint64_t *s, uint64_t n)
{
	return (uint64_t)(((unsigned __int128)rng_next(s) * n) >> 64);
}

/* The pool file of this process (or of the parent, in a child). */
const char *pool_path(void);
void pool_set_path(const char *path);
PMEMobjpool *pool_make(size_t size);
void pool_drop(PMEMobjpool *pop); /* closes and deletes */
/* A headerless allocation class of `unit` bytes; returns its XALLOC flag. */
uint64_t pool_class(PMEMobjpool *pop, size_t unit);
/* A zeroed, 64-byte aligned persistent array of `size` bytes. */
void *pool_array(PMEMobjpool *pop, size_t size);

static inline void tx_begin(PMEMobjpool *pop)
{
	/* No jmp_buf: cheaper than TX_BEGIN, errors show up in tx_commit. */
	if (pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE))
		die("tx_begin: %s", pmemobj_errormsg());
}
static inline void tx_commit(void)
{
	if (pmemobj_tx_stage() != TX_STAGE_WORK)
		die("transaction aborted: %s", pmemobj_errormsg());
	pmemobj_tx_commit();
	if (pmemobj_tx_end())
		die("tx_end: %s", pmemobj_errormsg());
}
static inline void tx_log(const void *p, size_t len)
{
	if (__builtin_expect(pmemobj_tx_add_range_direct(p, len) != 0, 0))
		die("add_range: %s", pmemobj_errormsg());
}

/*
 * Runs this program again as `pmdk-bench --child NAME BENCH VARIANT N` with
 * the same pool path, in a fresh process. Returns the number of values that
 * it printed; a child that dies of SIGKILL is fine, any other failure is not.
 */
int child_run(const char *name, double *values, int max);

void bench_sps(void);
void bench_sps_recovery(void);
void bench_nbody(void);
void bench_fannkuch(void);
void bench_binary_trees(void);
void bench_fill_heap(void);
void bench_fill_heap_open(void);
void bench_alloc(void);
void bench_txn(void);

void child_sps_crash(void);
void child_sps_reopen(void);
void child_fill(void);
void child_fill_reopen(void);

static inline int is_variant(const char *v) { return !strcmp(opt.variant, v); }
static inline int is_bench(const char *b) { return !strcmp(opt.bench, b); }

#endif
