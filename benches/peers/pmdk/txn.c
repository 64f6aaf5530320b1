/*
 * txn_empty: n empty transactions (variant tx).
 * txn_small: n transactions, going round 1024 objects of 64 bytes.
 *   field8            snapshot and write 8 bytes of one object
 *   object64          snapshot and write one whole object
 *   publish           no transaction: one pmemobj_set_value, published
 *   field8_persist    no transaction: 8-byte store and pmemobj_persist
 *   volatile_field8, volatile_object64
 *                     the plain stores
 *   volatile_field8_clwb, volatile_object64_clwb
 *                     the plain stores, each followed by pmem_persist (flush
 *                     and fence) on ordinary memory: the floor of one persist
 * txn_objects: n transactions, each of which sets 8 bytes in each of the next k
 * of these objects. Variants end in :k1 to :k16.
 *   tx       snapshot and write, object by object
 *   publish  no transaction: k pmemobj_set_value, published at once; their old
 *            values are not logged, and the new ones cannot be read before
 */
#include "common.h"

#define OBJECTS 1024
#define MAX_FIELDS 16

struct object {
	uint64_t w[8];
};

static PMEMobjpool *pop;
static struct object *objs;
static uint64_t fields; /* k */

#define BARRIER() __asm__ volatile("" ::: "memory")

static inline void write64(struct object *o, uint64_t i)
{
	for (int k = 0; k < 8; k++)
		o->w[k] = i;
}

#define LOOP(name, body) \
	static void name(void) \
	{ \
		for (uint64_t i = 0; i < opt.n; i++) { \
			struct object *o = &objs[i % OBJECTS]; \
			(void)o; \
			body; \
			BARRIER(); \
		} \
	}

LOOP(empty, tx_begin(pop); tx_commit())
LOOP(field8, tx_begin(pop); tx_log(o->w, 8); o->w[0] = i; tx_commit())
LOOP(object64, tx_begin(pop); tx_log(o, 64); write64(o, i); tx_commit())
LOOP(publish, struct pobj_action a; pmemobj_set_value(pop, &a, o->w, i);
	if (pmemobj_publish(pop, &a, 1))
		die("publish: %s", pmemobj_errormsg()))
LOOP(field8_persist, o->w[0] = i; pmemobj_persist(pop, o->w, 8))
LOOP(v_field8, o->w[0] = i)
LOOP(v_object64, write64(o, i))
LOOP(v_field8_clwb, o->w[0] = i; pmem_persist(o->w, 8))
LOOP(v_object64_clwb, write64(o, i); pmem_persist(o, 64))

static inline struct object *next_object(uint64_t i, uint64_t j)
{
	return &objs[(i * fields + j) % OBJECTS];
}

static void objects_tx(void)
{
	for (uint64_t i = 0; i < opt.n; i++) {
		tx_begin(pop);
		for (uint64_t j = 0; j < fields; j++) {
			struct object *o = next_object(i, j);
			tx_log(o->w, 8);
			o->w[0] = i;
		}
		tx_commit();
	}
}

static void objects_publish(void)
{
	struct pobj_action actv[MAX_FIELDS];
	for (uint64_t i = 0; i < opt.n; i++) {
		for (uint64_t j = 0; j < fields; j++)
			pmemobj_set_value(pop, &actv[j], next_object(i, j)->w, i);
		if (pmemobj_publish(pop, actv, fields))
			die("publish: %s", pmemobj_errormsg());
	}
}

static double rep(void *ctx)
{
	void (*const *run)(void) = ctx;
	double t = now();
	(*run)();
	t = now() - t;
	if (is_bench("txn_empty"))
		return t;
	uint64_t sum = 0;
	for (uint64_t i = 0; i < OBJECTS; i++)
		sum += objs[i].w[0] * (i + 1);
	checksum_int(sum);
	return t;
}

void bench_txn(void)
{
	static const struct {
		const char *bench, *variant;
		void (*run)(void);
	} kinds[] = {
		{ "txn_empty", "tx", empty },
		{ "txn_small", "field8", field8 },
		{ "txn_small", "object64", object64 },
		{ "txn_small", "publish", publish },
		{ "txn_small", "field8_persist", field8_persist },
		{ "txn_small", "volatile_field8", v_field8 },
		{ "txn_small", "volatile_object64", v_object64 },
		{ "txn_small", "volatile_field8_clwb", v_field8_clwb },
		{ "txn_small", "volatile_object64_clwb", v_object64_clwb },
		{ "txn_objects", "tx", objects_tx },
		{ "txn_objects", "publish", objects_publish },
	};
	void (*run)(void) = NULL;
	struct samples out;
	const char *colon = strstr(opt.variant, ":k");
	size_t name = colon ? (size_t)(colon - opt.variant) : strlen(opt.variant);
	fields = colon ? strtoull(colon + 2, NULL, 10) : 0;
	if (is_bench("txn_objects") != (fields >= 1 && fields <= MAX_FIELDS))
		die("txn: a variant of txn_objects, and no other, ends in :k1 to :k16");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (is_bench(kinds[i].bench) &&
		    strlen(kinds[i].variant) == name &&
		    !strncmp(opt.variant, kinds[i].variant, name))
			run = kinds[i].run;
	if (!run)
		die("txn: unknown variant");
	if (opt.is_volatile) {
		objs = aligned_alloc(64, OBJECTS * sizeof(*objs));
		memset(objs, 0, OBJECTS * sizeof(*objs));
	} else {
		pop = pool_make(0);
		objs = pool_array(pop, OBJECTS * sizeof(*objs));
	}
	measure(rep, &run, &out);
	for (uint64_t i = 0; is_bench("txn_small") && i < OBJECTS && i < opt.n; i++)
		if (objs[i].w[0] % OBJECTS != i)
			die("txn: wrong result");
	if (pop)
		pool_drop(pop);
	emit(opt.bench, &out, opt.n, "see ns_per_op");
}
