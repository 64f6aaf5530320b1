/*
 * nbody: Benchmarks Game n-body, five bodies in persistent memory, one
 * transaction per step.
 *   field  8-byte snapshot of each coordinate right before each write to it
 *   body   one snapshot per body per step
 *   tuned  one snapshot of all bodies per step
 */
#include "common.h"
#include <math.h>

#define NBODIES 5

struct body {
	double x[3], v[3], mass;
};

#define PI 3.141592653589793
#define SOLAR_MASS (4 * PI * PI)
#define DAYS 365.24

static const struct body init[NBODIES] = {
	{ { 0, 0, 0 }, { 0, 0, 0 }, SOLAR_MASS },
	{ { 4.84143144246472090e+00, -1.16032004402742839e+00,
	    -1.03622044471123109e-01 },
	  { 1.66007664274403694e-03 * DAYS, 7.69901118419740425e-03 * DAYS,
	    -6.90460016972063023e-05 * DAYS },
	  9.54791938424326609e-04 * SOLAR_MASS },
	{ { 8.34336671824457987e+00, 4.12479856412430479e+00,
	    -4.03523417114321381e-01 },
	  { -2.76742510726411e-03 * DAYS, 4.99852801234917238e-03 * DAYS,
	    2.30417297573763929e-05 * DAYS },
	  2.85885980666130812e-04 * SOLAR_MASS },
	{ { 1.28943695621391310e+01, -1.51111514016986312e+01,
	    -2.23307578892655734e-01 },
	  { 2.96460137564761618e-03 * DAYS, 2.37847173959480950e-03 * DAYS,
	    -2.96589568540237556e-05 * DAYS },
	  4.36624404335156298e-05 * SOLAR_MASS },
	{ { 1.53796971148509165e+01, -2.59193146099879641e+01,
	    1.79258772950371181e-01 },
	  { 2.68067772490389322e-03 * DAYS, 1.62824170038242295e-03 * DAYS,
	    -9.51592254519715870e-05 * DAYS },
	  5.15138902046611451e-05 * SOLAR_MASS },
};

static void offset_momentum(struct body *b)
{
	double p[3] = { 0, 0, 0 };
	for (int i = 0; i < NBODIES; i++)
		for (int k = 0; k < 3; k++)
			p[k] += b[i].v[k] * b[i].mass;
	for (int k = 0; k < 3; k++)
		b[0].v[k] = -p[k] / SOLAR_MASS;
}

static double energy(const struct body *b)
{
	double e = 0;
	for (int i = 0; i < NBODIES; i++) {
		e += 0.5 * b[i].mass * (b[i].v[0] * b[i].v[0] +
			b[i].v[1] * b[i].v[1] + b[i].v[2] * b[i].v[2]);
		for (int j = i + 1; j < NBODIES; j++) {
			double d[3];
			for (int k = 0; k < 3; k++)
				d[k] = b[i].x[k] - b[j].x[k];
			e -= b[i].mass * b[j].mass /
				sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]);
		}
	}
	return e;
}

static inline __attribute__((always_inline)) void
advance(struct body *b, double dt, enum log_mode mode)
{
	if (mode == LOG_WHOLE)
		tx_log(b, NBODIES * sizeof(*b));
	if (mode == LOG_BODY)
		for (int i = 0; i < NBODIES; i++)
			tx_log(&b[i], offsetof(struct body, mass));
	for (int i = 0; i < NBODIES; i++)
		for (int j = i + 1; j < NBODIES; j++) {
			double d[3];
			for (int k = 0; k < 3; k++)
				d[k] = b[i].x[k] - b[j].x[k];
			double d2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
			double mag = dt / (d2 * sqrt(d2));
			for (int k = 0; k < 3; k++) {
				if (mode == LOG_FIELD)
					tx_log(&b[i].v[k], sizeof(double));
				b[i].v[k] -= d[k] * b[j].mass * mag;
			}
			for (int k = 0; k < 3; k++) {
				if (mode == LOG_FIELD)
					tx_log(&b[j].v[k], sizeof(double));
				b[j].v[k] += d[k] * b[i].mass * mag;
			}
		}
	for (int i = 0; i < NBODIES; i++)
		for (int k = 0; k < 3; k++) {
			if (mode == LOG_FIELD)
				tx_log(&b[i].x[k], sizeof(double));
			b[i].x[k] += dt * b[i].v[k];
		}
}

struct nbody {
	PMEMobjpool *pop;
	struct body *b;
	enum log_mode mode;
	double result;
};

static inline __attribute__((always_inline)) void
steps(struct nbody *s, enum log_mode mode)
{
	for (uint64_t i = 0; i < opt.n; i++) {
		if (mode != LOG_NONE)
			tx_begin(s->pop);
		advance(s->b, 0.01, mode);
		if (mode != LOG_NONE)
			tx_commit();
	}
}

static double rep(void *ctx)
{
	struct nbody *s = ctx;
	memcpy(s->b, init, sizeof(init));
	offset_momentum(s->b);
	if (s->pop)
		pmemobj_persist(s->pop, s->b, sizeof(init));
	double t = now();
	switch (s->mode) {
	case LOG_NONE: steps(s, LOG_NONE); break;
	case LOG_FIELD: steps(s, LOG_FIELD); break;
	case LOG_BODY: steps(s, LOG_BODY); break;
	case LOG_WHOLE: steps(s, LOG_WHOLE); break;
	}
	t = now() - t;
	s->result = energy(s->b);
	checksum_float(s->result);
	return t;
}

void bench_nbody(void)
{
	struct nbody s = { 0 };
	struct samples out;
	s.mode = opt.is_volatile ? LOG_NONE :
		is_variant("field") ? LOG_FIELD :
		is_variant("body") ? LOG_BODY : LOG_WHOLE;
	if (s.mode == LOG_WHOLE && !is_variant("tuned"))
		die("nbody: unknown variant");

	struct body plain[NBODIES];
	memcpy(plain, init, sizeof(init));
	offset_momentum(plain);
	for (uint64_t i = 0; i < opt.n; i++)
		advance(plain, 0.01, LOG_NONE);

	struct body *mem = aligned_alloc(64, 5 * 64);
	if (s.mode == LOG_NONE) {
		s.b = mem;
	} else {
		s.pop = pool_make(0);
		s.b = pool_array(s.pop, sizeof(init));
	}
	measure(rep, &s, &out);
	if (s.pop)
		pool_drop(s.pop);
	free(mem);
	if (fabs(s.result - energy(plain)) > 1e-12)
		die("nbody: wrong result");
	emit("nbody", &out, opt.n, "energy %.9f", s.result);
}
