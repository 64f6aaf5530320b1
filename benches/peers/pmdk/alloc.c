/*
 * alloc: n replacements by T threads together. Each thread has a table of LIVE / T
 * objects of 64 to 256 bytes; a step puts a new object, all of whose words are
 * written, in the place of a random one and frees that.
 *   tx           one transaction per replacement
 *   tx_batch     one transaction per 64 of them
 *   reserve      64 of them a pmemobj_publish
 *   atomic       pmemobj_free and pmemobj_alloc with a constructor: a crash in
 *                between leaves an empty place
 *   atomic_dram  same, places in volatile memory (a crash leaks the objects)
 */
#include "common.h"
#include <pthread.h>

#define LIVE 100000
#define MIN_WORDS 8
#define MAX_WORDS 32
#define BATCH 64

struct object {
	uint64_t words; /* not counted in the 64 to 256 bytes */
	uint64_t w[];
};

struct worker { /* no two threads on one cache line (pair) */
	_Alignas(128) pthread_t id;
	uint64_t seed, live, steps;
	double begin, end;
	PMEMoid *slots;  /* volatile variant: .off holds the pointer */
	uint64_t *batch; /* in which batch a place was last taken */
};

static PMEMobjpool *pop;
static pthread_barrier_t barrier;
static void (*work)(struct worker *);

static inline uint64_t next_words(uint64_t *seed)
{
	return MIN_WORDS + rng_below(seed, MAX_WORDS - MIN_WORDS + 1);
}

static inline size_t size_of(uint64_t words)
{
	return sizeof(struct object) + words * sizeof(uint64_t);
}

static inline void write_words(struct object *o, uint64_t words, uint64_t value)
{
	o->words = words;
	for (uint64_t k = 0; k < words; k++)
		o->w[k] = value;
}

struct args {
	uint64_t words, value;
};

static int construct(PMEMobjpool *p, void *ptr, void *arg)
{
	struct args *a = arg;
	write_words(ptr, a->words, a->value);
	pmemobj_flush(p, ptr, size_of(a->words));
	return 0; /* drained when the allocation is published */
}

static inline void atomic_alloc(PMEMoid *s, uint64_t words, uint64_t value)
{
	struct args a = { words, value };
	if (pmemobj_alloc(pop, s, size_of(words), 0, construct, &a))
		die("alloc: %s", pmemobj_errormsg());
}

static void work_atomic(struct worker *w)
{
	for (uint64_t i = 0; i < w->steps; i++) {
		PMEMoid *s = &w->slots[rng_below(&w->seed, w->live)];
		uint64_t words = next_words(&w->seed);
		pmemobj_free(s);
		atomic_alloc(s, words, i);
	}
}

static inline __attribute__((always_inline)) void
tx_loop(struct worker *w, uint64_t batch)
{
	for (uint64_t i = 0; i < w->steps;) {
		tx_begin(pop);
		for (uint64_t end = i + batch; i < w->steps && i < end; i++) {
			PMEMoid *s = &w->slots[rng_below(&w->seed, w->live)];
			uint64_t words = next_words(&w->seed);
			tx_log(s, sizeof(*s));
			if (pmemobj_tx_free(*s))
				die("tx_free: %s", pmemobj_errormsg());
			*s = pmemobj_tx_alloc(size_of(words), 0);
			if (OID_IS_NULL(*s))
				die("tx_alloc: %s", pmemobj_errormsg());
			write_words(pmemobj_direct(*s), words, i);
		}
		tx_commit();
	}
}
static void work_tx(struct worker *w) { tx_loop(w, 1); }
static void work_tx_batch(struct worker *w) { tx_loop(w, BATCH); }

static void publish(struct pobj_action *actv, size_t actc)
{
	pmemobj_drain(pop);
	if (pmemobj_publish(pop, actv, actc))
		die("publish: %s", pmemobj_errormsg());
}

static void work_reserve(struct worker *w)
{
	struct pobj_action actv[3 * BATCH];
	size_t actc = 0;
	uint64_t batch = 1;
	memset(w->batch, 0, w->live * sizeof(*w->batch));
	for (uint64_t i = 0; i < w->steps; i++) {
		uint64_t place = rng_below(&w->seed, w->live);
		uint64_t words = next_words(&w->seed);
		PMEMoid *s = &w->slots[place];
		/* What is only reserved cannot be freed. */
		if (actc == 3 * BATCH || w->batch[place] == batch) {
			publish(actv, actc);
			actc = 0;
			batch++;
		}
		w->batch[place] = batch;
		pmemobj_defer_free(pop, *s, &actv[actc++]);
		PMEMoid oid = pmemobj_reserve(pop, &actv[actc++], size_of(words), 0);
		if (OID_IS_NULL(oid))
			die("reserve: %s", pmemobj_errormsg());
		struct object *o = pmemobj_direct(oid);
		write_words(o, words, i);
		pmemobj_flush(pop, o, size_of(words));
		pmemobj_set_value(pop, &actv[actc++], &s->off, oid.off);
	}
	publish(actv, actc);
}

static void *volatile_alloc(uint64_t words, uint64_t value)
{
	struct object *o = malloc(size_of(words));
	if (!o)
		die("out of memory");
	write_words(o, words, value);
	return o;
}

static void work_volatile(struct worker *w)
{
	for (uint64_t i = 0; i < w->steps; i++) {
		PMEMoid *s = &w->slots[rng_below(&w->seed, w->live)];
		uint64_t words = next_words(&w->seed);
		free((void *)s->off);
		s->off = (uint64_t)volatile_alloc(words, i);
	}
}

static const struct object *object_at(const PMEMoid *s)
{
	return opt.is_volatile ? (void *)s->off : pmemobj_direct(*s);
}

static uint64_t checksum(const struct worker *w)
{
	uint64_t sum = 0;
	for (int t = 0; t < opt.threads; t++)
		for (uint64_t i = 0; i < w[t].live; i++) {
			const struct object *o = object_at(&w[t].slots[i]);
			sum += (o->w[0] + o->w[o->words - 1]) * o->words * (i + 1);
		}
	return sum;
}

static void *thread(void *arg)
{
	struct worker *w = arg;
	pthread_barrier_wait(&barrier);
	w->begin = now();
	work(w);
	w->end = now();
	return NULL;
}

static double rep(void *ctx)
{
	struct worker *w = ctx;
	pthread_barrier_init(&barrier, NULL, opt.threads);
	for (int i = 0; i < opt.threads; i++) {
		w[i].seed = SEED + i;
		if (pthread_create(&w[i].id, NULL, thread, &w[i]))
			die("pthread_create");
	}
	/* From the first thread's start to the last one's end. */
	double begin = 1e300, end = 0;
	for (int i = 0; i < opt.threads; i++) {
		pthread_join(w[i].id, NULL);
		begin = w[i].begin < begin ? w[i].begin : begin;
		end = w[i].end > end ? w[i].end : end;
	}
	pthread_barrier_destroy(&barrier);
	checksum_int(checksum(w));
	return end - begin;
}

void bench_alloc(void)
{
	static const struct {
		const char *variant;
		void (*work)(struct worker *);
		int dram;
	} kinds[] = {
		{ "atomic", work_atomic, 0 },
		{ "atomic_dram", work_atomic, 1 },
		{ "tx", work_tx, 0 },
		{ "tx_batch", work_tx_batch, 0 },
		{ "reserve", work_reserve, 0 },
		{ "volatile", work_volatile, 1 },
	};
	struct worker *w = aligned_alloc(128, opt.threads * sizeof(*w));
	memset(w, 0, opt.threads * sizeof(*w));
	struct samples out;
	int dram = 0;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (is_variant(kinds[i].variant)) {
			work = kinds[i].work;
			dram = kinds[i].dram;
		}
	if (!work)
		die("alloc: unknown variant");
	if (!opt.is_volatile)
		pop = pool_make(128 * MiB);
	for (int t = 0; t < opt.threads; t++) {
		uint64_t live = LIVE / opt.threads, seed = ~(uint64_t)SEED;
		w[t].live = live;
		w[t].steps = opt.n / opt.threads;
		w[t].batch = calloc(live, sizeof(*w[t].batch));
		w[t].slots = dram ? calloc(live, sizeof(PMEMoid)) :
			pool_array(pop, live * sizeof(PMEMoid));
		for (uint64_t i = 0; i < live; i++) {
			PMEMoid *s = &w[t].slots[i];
			if (opt.is_volatile)
				s->off = (uint64_t)volatile_alloc(next_words(&seed), i);
			else
				atomic_alloc(s, next_words(&seed), i);
		}
	}
	measure(rep, w, &out);
	if (pop)
		pool_drop(pop);
	emit("alloc", &out, opt.n, "%.3f M replacements/s in total",
		opt.n / median(&out) / 1e6);
	free(w);
}
