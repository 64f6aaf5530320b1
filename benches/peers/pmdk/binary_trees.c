/*
 * binary_trees: Benchmarks Game binary-trees; every node lives in persistent
 * memory, a persistent slot points to each live tree, and each tree is freed.
 *   tx       one transaction per tree (build) and one per tree (free); 16-byte
 *            nodes with 8-byte offsets in a headerless allocation class
 *   tx_oid   same, as the PMDK examples do it: PMEMoid links (32-byte nodes)
 *            and the default allocation classes
 *   reserve  reserve all nodes of a tree, publish them at once; freed by
 *            deferred frees published at once; nodes as in tx
 *   atomic   one pmemobj_xalloc / pmemobj_free per node, straight into the
 *            parent's link; PMEMoid links in a 32-byte headerless class. A
 *            crash leaves a partial tree.
 */
#include "common.h"

#define MIN_DEPTH 4

struct node {
	uint64_t left, right;
};
struct node_oid {
	PMEMoid left, right;
};
/* Both kinds of link; slots[0]: the short-lived tree, slots[1]: the other. */
union slot {
	uint64_t off;
	PMEMoid oid;
	void *p;
};

static PMEMobjpool *pop;
static uint64_t class_flag;
static struct pobj_action *actv;
static size_t actc;

#define NODE(off) ((struct node *)((char *)pop + (off)))

/* Nodes come mostly in address order, so flush a line when it is left. */
static uintptr_t pending;
static inline void flush_line(uintptr_t line)
{
	if (line != pending) {
		if (pending)
			pmemobj_flush(pop, (void *)pending, 64);
		pending = line;
	}
}
static inline void flush_node(const struct node *n)
{
	flush_line((uintptr_t)n & ~63ul); /* 16-byte aligned: one line */
}

/* --- tx ---------------------------------------------------------------- */

static uint64_t tx_rec(int depth)
{
	uint64_t l = depth ? tx_rec(depth - 1) : 0;
	uint64_t r = depth ? tx_rec(depth - 1) : 0;
	PMEMoid oid = pmemobj_tx_xalloc(sizeof(struct node), 0,
		class_flag | POBJ_XALLOC_NO_FLUSH);
	if (OID_IS_NULL(oid))
		die("tx_alloc: %s", pmemobj_errormsg());
	struct node *n = NODE(oid.off);
	n->left = l;
	n->right = r;
	flush_node(n);
	return oid.off;
}

static void tx_build(union slot *s, int depth)
{
	tx_begin(pop);
	uint64_t off = tx_rec(depth);
	flush_line(0); /* drained by the commit */
	tx_log(&s->off, sizeof(s->off));
	s->off = off;
	tx_commit();
}

static uint64_t off_count(uint64_t off)
{
	struct node *n = NODE(off);
	return n->left ? 1 + off_count(n->left) + off_count(n->right) : 1;
}

static uint64_t off_check(union slot *s) { return off_count(s->off); }

static void tx_free_rec(uint64_t off)
{
	struct node *n = NODE(off);
	if (n->left) {
		tx_free_rec(n->left);
		tx_free_rec(n->right);
	}
	PMEMoid oid = { pmemobj_oid(n).pool_uuid_lo, off };
	if (pmemobj_tx_free(oid))
		die("tx_free: %s", pmemobj_errormsg());
}

static void tx_free(union slot *s)
{
	tx_begin(pop);
	tx_free_rec(s->off);
	tx_log(&s->off, sizeof(s->off));
	s->off = 0;
	tx_commit();
}

/* --- tx_oid ------------------------------------------------------------ */

static PMEMoid oid_rec(int depth)
{
	PMEMoid oid = pmemobj_tx_alloc(sizeof(struct node_oid), 0);
	if (OID_IS_NULL(oid))
		die("tx_alloc: %s", pmemobj_errormsg());
	struct node_oid *n = pmemobj_direct(oid);
	n->left = depth ? oid_rec(depth - 1) : OID_NULL;
	n->right = depth ? oid_rec(depth - 1) : OID_NULL;
	return oid;
}

static void oid_build(union slot *s, int depth)
{
	tx_begin(pop);
	tx_log(&s->oid, sizeof(s->oid));
	s->oid = oid_rec(depth);
	tx_commit();
}

static uint64_t oid_count(PMEMoid oid)
{
	struct node_oid *n = pmemobj_direct(oid);
	return OID_IS_NULL(n->left) ? 1 :
		1 + oid_count(n->left) + oid_count(n->right);
}

static uint64_t oid_check(union slot *s) { return oid_count(s->oid); }

static void oid_free_rec(PMEMoid oid)
{
	struct node_oid *n = pmemobj_direct(oid);
	if (!OID_IS_NULL(n->left)) {
		oid_free_rec(n->left);
		oid_free_rec(n->right);
	}
	if (pmemobj_tx_free(oid))
		die("tx_free: %s", pmemobj_errormsg());
}

static void oid_free(union slot *s)
{
	tx_begin(pop);
	oid_free_rec(s->oid);
	tx_log(&s->oid, sizeof(s->oid));
	s->oid = OID_NULL;
	tx_commit();
}

/* --- reserve ----------------------------------------------------------- */

static uint64_t reserve_rec(int depth)
{
	uint64_t l = depth ? reserve_rec(depth - 1) : 0;
	uint64_t r = depth ? reserve_rec(depth - 1) : 0;
	PMEMoid oid = pmemobj_xreserve(pop, &actv[actc++], sizeof(struct node),
		0, class_flag);
	if (OID_IS_NULL(oid))
		die("reserve: %s", pmemobj_errormsg());
	struct node *n = NODE(oid.off);
	n->left = l;
	n->right = r;
	flush_node(n);
	return oid.off;
}

static void publish(union slot *s, uint64_t off)
{
	pmemobj_set_value(pop, &actv[actc++], &s->off, off);
	if (pmemobj_publish(pop, actv, actc))
		die("publish: %s", pmemobj_errormsg());
}

static void reserve_build(union slot *s, int depth)
{
	actc = 0;
	uint64_t off = reserve_rec(depth);
	flush_line(0);
	pmemobj_drain(pop);
	publish(s, off);
}

static void defer_rec(uint64_t off, uint64_t uuid)
{
	struct node *n = NODE(off);
	if (n->left) {
		defer_rec(n->left, uuid);
		defer_rec(n->right, uuid);
	}
	pmemobj_defer_free(pop, (PMEMoid){ uuid, off }, &actv[actc++]);
}

static void reserve_free(union slot *s)
{
	actc = 0;
	defer_rec(s->off, pmemobj_oid(s).pool_uuid_lo);
	publish(s, 0);
}

/* --- atomic ------------------------------------------------------------ */

static void atomic_rec(PMEMoid *link, int depth)
{
	if (pmemobj_xalloc(pop, link, sizeof(struct node_oid), 0,
			class_flag | POBJ_XALLOC_ZERO, NULL, NULL))
		die("xalloc: %s", pmemobj_errormsg());
	struct node_oid *n = pmemobj_direct(*link);
	if (depth) {
		atomic_rec(&n->left, depth - 1);
		atomic_rec(&n->right, depth - 1);
	}
}

static void atomic_build(union slot *s, int depth)
{
	atomic_rec(&s->oid, depth);
}

static void atomic_free_rec(PMEMoid *link)
{
	struct node_oid *n = pmemobj_direct(*link);
	if (!OID_IS_NULL(n->left)) {
		atomic_free_rec(&n->left);
		atomic_free_rec(&n->right);
	}
	pmemobj_free(link);
}

static void atomic_free(union slot *s) { atomic_free_rec(&s->oid); }

/* --- volatile ---------------------------------------------------------- */

struct vnode {
	struct vnode *left, *right;
};

static struct vnode *v_rec(int depth)
{
	struct vnode *l = depth ? v_rec(depth - 1) : NULL;
	struct vnode *r = depth ? v_rec(depth - 1) : NULL;
	struct vnode *n = malloc(sizeof(*n));
	n->left = l;
	n->right = r;
	return n;
}
static void v_build(union slot *s, int depth) { s->p = v_rec(depth); }
static uint64_t v_count(struct vnode *n)
{
	return n->left ? 1 + v_count(n->left) + v_count(n->right) : 1;
}
static uint64_t v_check(union slot *s) { return v_count(s->p); }
static void v_free_rec(struct vnode *n)
{
	if (n->left) {
		v_free_rec(n->left);
		v_free_rec(n->right);
	}
	free(n);
}
static void v_free(union slot *s) { v_free_rec(s->p); }

/* ----------------------------------------------------------------------- */

struct api {
	const char *variant;
	size_t unit;      /* allocation class, 0 for the default ones */
	size_t per_node;  /* pool bytes per node of the largest tree */
	void (*build)(union slot *, int depth);
	uint64_t (*check)(union slot *);
	void (*free)(union slot *);
};

/* The pool also holds the redo log of the largest transaction. */
static const struct api apis[] = {
	{ "tx", 16, 128, tx_build, off_check, tx_free },
	{ "tx_oid", 0, 256, oid_build, oid_check, oid_free },
	{ "reserve", 16, 128, reserve_build, off_check, reserve_free },
	{ "atomic", 32, 64, atomic_build, oid_check, atomic_free },
	{ "volatile", 0, 0, v_build, v_check, v_free },
};

struct trees {
	const struct api *api;
	union slot *slots;
	uint64_t nodes;
};

static uint64_t tree_size(int depth) { return (2ul << depth) - 1; }

static double rep(void *ctx)
{
	struct trees *t = ctx;
	const struct api *api = t->api;
	union slot *shrt = &t->slots[0], *lng = &t->slots[1];
	int n = opt.n;
	double start = now();
	t->nodes = 0;

	api->build(shrt, n + 1);
	uint64_t got = api->check(shrt);
	api->free(shrt);
	t->nodes += got;
	int ok = got == tree_size(n + 1);

	api->build(lng, n);
	for (int d = MIN_DEPTH; d <= n; d += 2) {
		uint64_t iters = 1ul << (n - d + MIN_DEPTH), sum = 0;
		for (uint64_t i = 0; i < iters; i++) {
			api->build(shrt, d);
			sum += api->check(shrt);
			api->free(shrt);
		}
		t->nodes += sum;
		ok &= sum == iters * tree_size(d);
	}
	got = api->check(lng);
	api->free(lng);
	t->nodes += got;
	ok &= got == tree_size(n);
	if (!ok)
		die("binary_trees: wrong node count");
	start = now() - start;
	checksum_int(t->nodes);
	return start;
}

void bench_binary_trees(void)
{
	struct trees t = { 0 };
	struct samples out;
	union slot vslots[2] = { 0 };
	for (size_t i = 0; i < sizeof(apis) / sizeof(apis[0]); i++)
		if (is_variant(apis[i].variant))
			t.api = &apis[i];
	if (!t.api || opt.n < MIN_DEPTH + 2 || opt.n > 24)
		die("binary_trees: bad variant or depth");
	t.slots = vslots;
	if (!opt.is_volatile) {
		uint64_t largest = tree_size(opt.n + 1) + tree_size(opt.n);
		pop = pool_make(64 * MiB + largest * t.api->per_node);
		if (t.api->unit)
			class_flag = pool_class(pop, t.api->unit);
		t.slots = pool_array(pop, sizeof(vslots));
		actv = malloc((tree_size(opt.n + 1) + 1) * sizeof(*actv));
	}
	measure(rep, &t, &out);
	if (pop)
		pool_drop(pop);
	free(actv);
	emit("binary_trees", &out, t.nodes, "%lu nodes allocated and freed",
		t.nodes);
}
