//! `nbody`: n-body of the Benchmarks Game, with five bodies and `n` steps. On the heap each step is a
//! transaction.

use crate::measure::Checksum;
use crate::{Case, Result, Sample, Setup};
use pheap::{Options, P, Persist, Root, Txn, txn};
use std::array::from_fn;
use std::borrow::BorrowMut;
use std::f64::consts::PI;

const BODIES: usize = 5;
const STEP: f64 = 0.01;
const SOLAR_MASS: f64 = 4.0 * PI * PI;
const DAYS: f64 = 365.24;

/// A position, a velocity and a mass.
#[derive(Clone, Copy, Debug, Persist)]
#[repr(C)]
struct Body {
    x: [f64; 3],
    v: [f64; 3],
    mass: f64,
}

/// The five bodies as one object.
#[derive(Persist)]
#[repr(C)]
struct System {
    bodies: [Body; BODIES],
}

/// The five bodies as separate objects.
#[derive(Persist)]
#[repr(C)]
struct Objects<'r> {
    bodies: [P<'r, Body>; BODIES],
}

/// Returns all variants with `n` steps.
pub fn cases(setup: &Setup, n: u64) -> Result<Vec<Case>> {
    let array = move || {
        let mut bodies = solar_system();
        let (sample, ()) = Sample::time(|| {
            for _ in 0..n {
                advance(&mut bodies);
            }
        });
        Ok(sample.with(energy(&bodies)))
    };
    let boxes = move || {
        let mut bodies = solar_system().map(Box::new);
        let (sample, ()) = Sample::time(|| {
            for _ in 0..n {
                advance(&mut bodies);
            }
        });
        Ok(sample.with(energy(&bodies.map(|body| *body))))
    };
    let mut cases = vec![
        Case::new("volatile", "nbody", "array", n, array),
        Case::new("volatile", "nbody", "box", n, boxes),
    ];
    for (options, name) in setup.modes() {
        cases.push(one_object(setup, &options, name.into(), n)?);
        cases.push(five_objects(setup, &options, format!("{name}:objects"), n, advance_copy)?);
        cases.push(five_objects(setup, &options, format!("{name}:objects_txn"), n, advance_in_place)?);
    }
    for (options, name) in setup.undo_modes() {
        cases.push(one_object(setup, &options, format!("{name}:undo"), n)?);
    }
    Ok(cases)
}

/// A step covers the whole system by one `&mut`.
fn one_object(setup: &Setup, options: &Options, variant: String, n: u64) -> Result<Case> {
    let heap = setup.heap_with(options)?;
    let root: Root<System> = heap.heap.root_or("system", |_| Ok(System { bodies: solar_system() }))?;
    Ok(Case::new("pheap", "nbody", variant, n, move || {
        root.txn(|tx, p| {
            tx[p].bodies = solar_system();
            Ok(())
        })?;
        let (sample, ()) = heap.time(|| {
            for _ in 0..n {
                root.txn(|tx, p| {
                    advance(&mut tx[p].bodies);
                    Ok(())
                })?;
            }
            Ok(())
        })?;
        let energy = root.read(|view, p| energy(&view[p].bodies))?;
        Ok(sample.with(energy))
    }))
}

/// The bodies are five objects, which `step` moves.
fn five_objects(
    setup: &Setup,
    options: &Options,
    variant: String,
    n: u64,
    step: impl for<'r> Fn(&mut Txn<'r>, [P<'r, Body>; BODIES]) + Copy + 'static,
) -> Result<Case> {
    let heap = setup.heap_with(options)?;
    let root: Root<Objects> = heap.heap.root_or("bodies", |tx| {
        let [a, b, c, d, e] = solar_system().map(|body| tx.alloc(body));
        Ok(Objects { bodies: [a?, b?, c?, d?, e?] })
    })?;
    Ok(Case::new("pheap", "nbody", variant, n, move || {
        root.txn(|tx, p| {
            for (object, body) in tx[p].bodies.into_iter().zip(solar_system()) {
                tx[object] = body;
            }
            Ok(())
        })?;
        let (sample, ()) = heap.time(|| {
            for _ in 0..n {
                root.txn(|tx, p| {
                    let bodies = tx[p].bodies;
                    step(tx, bodies);
                    Ok(())
                })?;
            }
            Ok(())
        })?;
        let energy = root.read(|view, p| energy(&view[p].bodies.map(|body| view[body])))?;
        Ok(sample.with(energy))
    }))
}

/// Copies the bodies out, moves them, and writes each back as a whole.
fn advance_copy<'r>(tx: &mut Txn<'r>, objects: [P<'r, Body>; BODIES]) {
    let mut bodies = objects.map(|object| tx[object]);
    advance(&mut bodies);
    for (object, body) in objects.into_iter().zip(bodies) {
        tx[object] = body;
    }
}

/// Changes the objects in place. Each assignment stores one number.
#[txn]
fn advance_in_place<'r>(tx: &mut Txn<'r>, bodies: [P<'r, Body>; BODIES]) {
    for i in 0..BODIES {
        for j in i + 1..BODIES {
            let (a, b) = (bodies[i], bodies[j]);
            let d: [f64; 3] = from_fn(|k| tx[a].x[k] - tx[b].x[k]);
            let (mass_a, mass_b, mag) = (tx[a].mass, tx[b].mass, magnitude(d));
            for (k, d) in d.into_iter().enumerate() {
                tx[a].v[k] -= d * mass_b * mag;
                tx[b].v[k] += d * mass_a * mag;
            }
        }
    }
    for body in bodies {
        for k in 0..3 {
            let v = tx[body].v[k];
            tx[body].x[k] += STEP * v;
        }
    }
}

/// Makes one step on an array of bodies, or of boxes. The volatile and the persistent variant with an array
/// share this code, which is compiled once for arrays.
#[inline(never)]
fn advance<B: BorrowMut<Body>>(bodies: &mut [B; BODIES]) {
    for i in 0..BODIES {
        for j in i + 1..BODIES {
            let d: [f64; 3] = from_fn(|k| bodies[i].borrow().x[k] - bodies[j].borrow().x[k]);
            let (mass_i, mass_j, mag) = (bodies[i].borrow().mass, bodies[j].borrow().mass, magnitude(d));
            for (k, d) in d.into_iter().enumerate() {
                bodies[i].borrow_mut().v[k] -= d * mass_j * mag;
                bodies[j].borrow_mut().v[k] += d * mass_i * mag;
            }
        }
    }
    for body in bodies {
        let body = body.borrow_mut();
        for k in 0..3 {
            body.x[k] += STEP * body.v[k];
        }
    }
}

#[inline(always)]
fn magnitude(d: [f64; 3]) -> f64 {
    let squared = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
    STEP / (squared * squared.sqrt())
}

/// Returns the energy, which a step hardly changes.
fn energy(bodies: &[Body; BODIES]) -> Checksum {
    let mut energy = 0.0;
    for (i, body) in bodies.iter().enumerate() {
        let [x, y, z] = body.v;
        energy += 0.5 * body.mass * (x * x + y * y + z * z);
        for other in &bodies[i + 1..] {
            let [x, y, z]: [f64; 3] = from_fn(|k| body.x[k] - other.x[k]);
            energy -= body.mass * other.mass / (x * x + y * y + z * z).sqrt();
        }
    }
    Checksum::Float(energy)
}

/// Returns Sun, Jupiter, Saturn, Uranus and Neptune. The momentum of the sun is such that the system rests.
fn solar_system() -> [Body; BODIES] {
    let mut bodies = PLANETS.map(|(x, v, mass)| Body { x, v: v.map(|v| v * DAYS), mass: mass * SOLAR_MASS });
    let momentum: [f64; 3] = from_fn(|k| bodies.iter().map(|body| body.v[k] * body.mass).sum());
    bodies[0].v = momentum.map(|p| -p / SOLAR_MASS);
    bodies
}

/// Position, velocity per day, and mass in solar masses, with the digits of the benchmark's definition.
#[allow(clippy::excessive_precision)]
const PLANETS: [([f64; 3], [f64; 3], f64); BODIES] = [
    ([0.0; 3], [0.0; 3], 1.0),
    (
        [4.84143144246472090e+00, -1.16032004402742839e+00, -1.03622044471123109e-01],
        [1.66007664274403694e-03, 7.69901118419740425e-03, -6.90460016972063023e-05],
        9.54791938424326609e-04,
    ),
    (
        [8.34336671824457987e+00, 4.12479856412430479e+00, -4.03523417114321381e-01],
        [-2.76742510726411030e-03, 4.99852801234917238e-03, 2.30417297573763929e-05],
        2.85885980666130812e-04,
    ),
    (
        [1.28943695621391310e+01, -1.51111514016986312e+01, -2.23307578892655734e-01],
        [2.96460137564761618e-03, 2.37847173959480950e-03, -2.96589568540237556e-05],
        4.36624404335156298e-05,
    ),
    (
        [1.53796971148509165e+01, -2.59193146099879641e+01, 1.79258772950371181e-01],
        [2.68067772490389322e-03, 1.62824170038242295e-03, -9.51592254519715870e-05],
        5.15138902046611451e-05,
    ),
];
