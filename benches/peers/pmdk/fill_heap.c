/*
 * fill_heap: n MiB of 64-byte objects, every second one pushed to a list that
 * the root points to, the others unreachable. fill_heap_open: the process that
 * has filled the heap is killed; timed is pmemobj_open and a first allocation in
 * a fresh process, which is killed as well.
 *   tx       1024 objects a transaction, 64-byte headerless class
 *   reserve  1024 objects a pmemobj_publish, same class
 *   atomic   one pmemobj_alloc with a constructor per object, default classes
 *            (128 bytes a piece)
 *   *_freed  the unreachable half is then freed, untimed, as a program without
 *            a garbage collector has to
 */
#include "common.h"
#include <signal.h>
#include <unistd.h>

#define BATCH 1024

struct object {
	uint64_t next;
	uint64_t data[7];
};

struct root {
	PMEMoid head; /* .off only, except in the atomic variant */
	PMEMoid other;
	uint64_t count;
};

static PMEMobjpool *pop;
static uint64_t class_flag;

static uint64_t objects(void) { return opt.n * MiB / sizeof(struct object); }

/* Ends the process with the pool open. */
static void killed(void)
{
	fflush(stdout);
	kill(getpid(), SIGKILL);
	pause();
}

static inline void fill_object(struct object *o, uint64_t next, uint64_t i)
{
	o->next = next;
	for (int k = 0; k < 7; k++)
		o->data[k] = i + k;
}

static void fill_tx(struct root *r, uint64_t n, uint64_t *others)
{
	for (uint64_t i = 0; i < n;) {
		tx_begin(pop);
		uint64_t head = r->head.off;
		for (uint64_t end = i + BATCH; i < n && i < end; i++) {
			PMEMoid oid = pmemobj_tx_xalloc(sizeof(struct object), 0,
				class_flag);
			if (OID_IS_NULL(oid))
				die("tx_alloc: %s", pmemobj_errormsg());
			fill_object((void *)((char *)pop + oid.off), head, i);
			if (i % 2 == 0)
				head = oid.off;
			else if (others)
				others[i / 2] = oid.off;
		}
		tx_log(&r->head, sizeof(r->head));
		r->head.off = head;
		tx_commit();
	}
}

static void fill_reserve(struct root *r, uint64_t n, uint64_t *others)
{
	static struct pobj_action actv[BATCH + 1];
	for (uint64_t i = 0; i < n;) {
		size_t actc = 0;
		uint64_t head = r->head.off;
		for (uint64_t end = i + BATCH; i < n && i < end; i++) {
			PMEMoid oid = pmemobj_xreserve(pop, &actv[actc++],
				sizeof(struct object), 0, class_flag);
			if (OID_IS_NULL(oid))
				die("reserve: %s", pmemobj_errormsg());
			struct object *o = (void *)((char *)pop + oid.off);
			fill_object(o, head, i);
			pmemobj_flush(pop, o, sizeof(*o));
			if (i % 2 == 0)
				head = oid.off;
			else if (others)
				others[i / 2] = oid.off;
		}
		pmemobj_drain(pop);
		pmemobj_set_value(pop, &actv[actc++], &r->head.off, head);
		if (pmemobj_publish(pop, actv, actc))
			die("publish: %s", pmemobj_errormsg());
	}
}

struct push {
	struct root *r;
	uint64_t i;
};

static int construct(PMEMobjpool *p, void *ptr, void *arg)
{
	struct push *a = arg;
	fill_object(ptr, a->r->head.off, a->i);
	pmemobj_persist(p, ptr, sizeof(struct object));
	return 0;
}

static void fill_atomic(struct root *r, uint64_t n, uint64_t *others)
{
	struct push a = { r, 0 };
	for (; a.i < n; a.i++) {
		PMEMoid *to = a.i % 2 == 0 ? &r->head : &r->other;
		if (pmemobj_alloc(pop, to, sizeof(struct object), 0, construct, &a))
			die("alloc: %s", pmemobj_errormsg());
		if (a.i % 2 && others)
			others[a.i / 2] = to->off;
	}
}

static double fill_volatile(uint64_t n)
{
	double t = now();
	struct object *head = NULL;
	for (uint64_t i = 0; i < n; i++) {
		struct object *o = malloc(sizeof(*o));
		fill_object(o, (uint64_t)head, i);
		if (i % 2 == 0)
			head = o;
	}
	t = now() - t;
	uint64_t count = 0;
	for (; head; head = (struct object *)head->next)
		count++;
	if (count != (n + 1) / 2)
		die("fill_heap: wrong count");
	return t;
}

void child_fill(void)
{
	uint64_t n = objects();
	if (opt.is_volatile) {
		printf("%.9f\n", fill_volatile(n));
		return;
	}
	int atomic = !strncmp(opt.variant, "atomic", 6);
	uint64_t *others = strstr(opt.variant, "_freed") ?
		malloc((n / 2 + 1) * sizeof(*others)) : NULL;
	pop = pool_make(64 * MiB + n * (atomic ? 130 : 66));
	class_flag = pool_class(pop, sizeof(struct object));
	struct root *r = pmemobj_direct(pmemobj_root(pop, sizeof(*r)));

	double t = now();
	if (atomic)
		fill_atomic(r, n, others);
	else if (!strncmp(opt.variant, "tx", 2))
		fill_tx(r, n, others);
	else if (!strncmp(opt.variant, "reserve", 7))
		fill_reserve(r, n, others);
	else
		die("fill_heap: unknown variant");
	t = now() - t;

	r->count = (n + 1) / 2;
	pmemobj_persist(pop, r, sizeof(*r));
	double tf = now();
	if (others)
		for (uint64_t i = 0; i < n / 2; i++) {
			PMEMoid oid = { pmemobj_oid(r).pool_uuid_lo, others[i] };
			pmemobj_free(&oid);
		}
	tf = now() - tf;
	printf("%.9f\n", t);
	if (others)
		printf("%.9f\n", tf);
	free(others);
	killed();
}

void child_fill_reopen(void)
{
	double t0 = now();
	pop = pmemobj_open(pool_path(), LAYOUT);
	double t1 = now();
	if (!pop)
		die("open: %s", pmemobj_errormsg());
	int atomic = !strncmp(opt.variant, "atomic", 6);
	double t2 = now();
	PMEMoid oid;
	class_flag = pool_class(pop, sizeof(struct object));
	if (pmemobj_xalloc(pop, &oid, sizeof(struct object), 0,
			atomic ? 0 : class_flag, NULL, NULL))
		die("first alloc: %s", pmemobj_errormsg());
	double t3 = now();
	struct root *r = pmemobj_direct(pmemobj_root(pop, sizeof(*r)));
	uint64_t count = 0;
	for (uint64_t off = r->head.off; off; count++)
		off = ((struct object *)((char *)pop + off))->next;
	double t4 = now();
	if (count != r->count || count != (objects() + 1) / 2)
		die("fill_heap: %lu objects on the list", count);
	printf("%.9f\n%.9f\n%.9f\n", t1 - t0, t3 - t2, t4 - t3);
	killed();
}

static double rep_fill(void *ctx)
{
	double v[2];
	struct samples *freed = ctx;
	int got = child_run("fill", v, 2);
	if (got < 1)
		die("fill_heap: no answer");
	if (got == 2 && freed->n < MAX_REPS)
		freed->s[freed->n++] = v[1];
	unlink(pool_path());
	return v[0];
}

void bench_fill_heap(void)
{
	struct samples out, freed = { 0 };
	pool_path();
	measure(rep_fill, &freed, &out);
	emit("fill_heap", &out, objects(), "%lu objects, %.2f M/s%s", objects(),
		objects() / median(&out) / 1e6,
		opt.prefault || opt.is_volatile ? "" : ", pool not prefaulted");
	if (strstr(opt.variant, "_freed"))
		emit("fill_heap_free", &freed, objects() / 2,
			"pmemobj_free of the unreachable half");
}

struct reopen {
	struct samples open, first, walk;
};

static double rep_reopen(void *ctx)
{
	struct reopen *f = ctx;
	double v[3];
	if (child_run("fill_reopen", v, 3) != 3)
		die("fill_heap_open: no answer");
	if (f->open.n < MAX_REPS) {
		f->open.s[f->open.n++] = v[0];
		f->first.s[f->first.n++] = v[1];
		f->walk.s[f->walk.n++] = v[2];
	}
	return v[0] + v[1];
}

void bench_fill_heap_open(void)
{
	struct samples out;
	struct reopen f = { 0 };
	double v[2];
	if (opt.is_volatile)
		die("fill_heap_open: nothing to open");
	pool_path();
	if (child_run("fill", v, 2) < 1)
		die("fill_heap_open: no answer");
	measure(rep_reopen, &f, &out);
	unlink(pool_path());
	emit("fill_heap_open", &out, 1,
		"open %.6f s, first allocation %.6f s, "
		"walk of the reachable list %.6f s", median(&f.open),
		median(&f.first), median(&f.walk));
}
