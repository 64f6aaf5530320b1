//! The macros of the `pheap` crate, which re-exports them: [`macro@Persist`] and [`macro@txn`].
//!
//! An expansion adds no `unsafe` code of its own. It calls `macro_rules!` macros of `pheap` (in its module
//! `__private`), which contain the unsafe code and check their input. The reason is that the user chooses the
//! path to `pheap` in the expansion, and unsafe code must not name anything through that path.

mod derive;
mod errors;
mod txn;

use proc_macro::TokenStream;

/// `quote!` with mixed-site hygiene: local variables of the expansion cannot collide with the user's. Errors
/// point to the call of the macro, or to a span that is given first.
macro_rules! hygienic {
    (at $span:expr => $($tokens:tt)*) => {
        ::quote::quote_spanned!(crate::hygienic_at($span)=> $($tokens)*)
    };
    ($($tokens:tt)*) => { ::quote::quote_spanned!(::proc_macro2::Span::mixed_site()=> $($tokens)*) };
}
pub(crate) use hygienic;

/// Returns a span with mixed-site hygiene whose errors point to `span`. Call this once for each place, since
/// it calls the compiler.
fn hygienic_at(span: proc_macro2::Span) -> proc_macro2::Span {
    proc_macro2::Span::mixed_site().located_at(span)
}

/// Implements `Persist`, so that a struct or enum can live in a persistent heap.
///
/// ```
/// use pheap::{P, Persist};
///
/// #[derive(Persist)]
/// #[repr(C)]
/// struct Node<'r> {
///     value: u64,
///     next: Option<P<'r, Node<'r>>>,
/// }
///
/// #[derive(Persist)]
/// #[repr(u8)]
/// enum Shape<'r> {
///     Empty,
///     Circle { radius: f64 },
///     Path(P<'r, [f64]>),
/// }
/// ```
///
/// # Requirements
///
/// * **A layout that the language defines.** `#[repr(C)]` or `#[repr(transparent)]` on a struct,
///   `#[repr(u8)]` or another fixed-width integer on an enum. The file outlives the compiler that laid it
///   out.
/// * **Fields that are `Persist`**: fixed-width numbers, `bool`, `char`, arrays, `P`, `Option<P>`, `NonZero`
///   and the like, and types that derive it. Rust does not define the layout of some standard types: use
///   `POption`, `PTuple2`, `PDuration` and `PSystemTime` for them. Use `Stored<T, Adapter>` for types of
///   other crates.
/// * **At most one lifetime**, the brand of the transaction.
/// * **No `Drop`** (the heap drops no object) **and no `Deref`** (the heap could not see a store through it).
/// * **No attribute macro below the derive** that changes the type: put the derive below that attribute.
///
/// Type parameters get a `Persist` bound. A bound on the type itself must hold at every brand. For instance,
/// `struct Pair<T: Copy>` is `Persist` where `T::At<'a>: Copy` for every `'a`. Most bounds are better placed
/// on the functions that need them.
///
/// # Attributes
///
/// * `#[persist(id = "shop.order")]`: the name by which the heap knows the type, instead of its Rust name. It
///   consists of letters, digits, `_`, `.`, `-`, `/` and `:`, and does not begin with `pheap::`. Letters need
///   not be ASCII.
/// * `#[persist(key)]`: the type can be a key of `PHashMap` and `PBTreeMap`, and programs look it up by a
///   value of the type. It must be `Copy`, `Eq` and `Ord`, and must have no parameters. Its fields must be
///   such keys, too: numbers, `bool`, `char`, `[u8; N]`, `POption`, `PSystemTime` and the like, other types
///   with `#[persist(key)]`.
/// * `#[persist(serde)]`: values can be exported and imported with serde, in the representation of serde's
///   derives. It needs the feature `serde` of `pheap`, and fields that can be exported and imported. Type
///   parameters get the bounds for it, and may declare none themselves. The input of an import may lack a
///   field of type `Option<P<T>>`. See `pheap::exchange`.
/// * `#[persist(was = "Order")]` on the type, a field or a variant: an earlier name. There may be several.
/// * `#[persist(since = 2)]` on a field or variant: the version of the type that added it. With `was` and
///   `since`, the program opens a heap of an earlier version without converting it. The field must lie where
///   a `pheap::Spare` was; in older objects it is zero (`None`, empty). The variant must not make the enum
///   larger.
/// * `#[persist(since = 2, default = 7)]` on a field: its value in older objects. The expression is evaluated
///   for each of them.
/// * `#[persist(removed = "x")]` on a struct or variant: the name of a removed field. For `default` and
///   `removed`, and for fields that are larger or in another place, `pheap::Heap::evolve` converts the
///   objects.
/// * `#[persist(crate = "path::to::pheap")]`: the path to `pheap`, if it was renamed or re-exported.
///
/// ```
/// use pheap::{Heap, PVec, Persist, Root};
///
/// #[derive(Persist, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
/// #[persist(id = "race.car", key, serde)]
/// #[repr(u8)]
/// enum Car {
///     Red,
///     Blue,
/// }
///
/// #[derive(Persist)]
/// #[persist(id = "race.lap", serde)]
/// #[repr(C)]
/// struct Lap {
///     car: Car,
///     seconds: f64,
/// }
///
/// # fn main() -> pheap::Result<()> {
/// let heap = Heap::in_memory()?;
/// let text = r#"[{"car":"Red","seconds":61.5},{"car":"Blue","seconds":60.25}]"#;
/// let laps: Root<PVec<Lap>> = heap.root_or("laps", |tx| tx.import(&mut serde_json::Deserializer::from_str(text)))?;
/// assert!(laps.read(|view, laps| serde_json::to_string(&view.export(laps)).unwrap() == text)?);
/// # Ok(())
/// # }
/// ```
#[proc_macro_derive(Persist, attributes(persist))]
pub fn derive_persist(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    derive::derive(&input).into()
}

/// Makes the stores of a function cheaper, and can open the transaction for it.
///
/// A store such as `tx[p].len += 1` makes the whole object crash-safe, since `tx[p]` returns a `&mut` to all
/// of it. Under `#[txn]` the same line lets pheap make only that field crash-safe. Without the attribute, a
/// function may be slower, but is equally safe.
///
/// # A function that joins its caller's transaction
///
/// It has a parameter of type `&mut Txn<'r>`, of any name, or several such parameters, one per root.
///
/// ```
/// # use pheap::{P, Persist, Root, Txn, txn};
/// # #[derive(Persist)] #[repr(C)] struct Node<'r> { value: u64, next: Option<P<'r, Node<'r>>> }
/// # #[derive(Persist, Default)] #[repr(C)] struct List<'r> { head: Option<P<'r, Node<'r>>>, len: u64 }
/// #[txn]
/// fn push<'r>(tx: &mut Txn<'r>, list: P<'r, List<'r>>, value: u64) -> pheap::Result<()> {
///     let node = tx.alloc(Node { value, next: tx[list].head })?;
///     tx[list].head = Some(node); // only this field need be logged ...
///     tx[list].len += 1;          // ... and this one
///     Ok(())
/// }
/// ```
///
/// # A function that opens a transaction
///
/// It has one parameter of type `&Root<T>`, and none of type `&mut Txn<'r>`. In its body, the name of this
/// parameter is the `P` to the root object, and `tx` is the transaction. `?` and `return Err(..)` roll the
/// transaction back. The function returns a `Result<_, E>` where `E: From<pheap::Error>`.
///
/// ```
/// # use pheap::{P, Persist, Root, Txn, txn};
/// # #[derive(Persist)] #[repr(C)] struct Node<'r> { value: u64, next: Option<P<'r, Node<'r>>> }
/// # #[derive(Persist, Default)] #[repr(C)] struct List<'r> { head: Option<P<'r, Node<'r>>>, len: u64 }
/// # #[txn]
/// # fn push<'r>(tx: &mut Txn<'r>, list: P<'r, List<'r>>, value: u64) -> pheap::Result<()> {
/// #     let node = tx.alloc(Node { value, next: tx[list].head })?;
/// #     tx[list].head = Some(node);
/// #     tx[list].len += 1;
/// #     Ok(())
/// # }
/// #[txn]
/// fn record(list: &Root<List>, value: u64) -> pheap::Result<u64> {
///     push(tx, list, value)?;
///     Ok(tx[list].len)
/// }
/// ```
///
/// # Rewritten code
///
/// Assignments (`=`, `+=`, …) to `tx[e]`, followed by any chain of fields and `[i]` of arrays and slices, in
/// the whole body except nested functions, the arguments of macros, and assignments with an attribute. (The
/// macro may overlook others; they are not faster, but correct.) `e` and `i` are evaluated before the
/// transaction is borrowed, so `tx[tx[a].next.unwrap()].val = 5` compiles. Otherwise the types, the values
/// and the order of evaluation are those of the plain code.
///
/// (Temporaries of `e` and `i` are dropped directly after their evaluation. If `+=` is your implementation of
/// `AddAssign`, then in `tx[*cell.borrow()].sum += value()`, `value` may borrow the `cell` mutably.)
///
/// Two consecutive assignments to different objects or elements can share one fence, but only if each `e` and
/// `i` is a plain variable or a literal. The macro cannot use your implementation of `IndexMut`: an `[i]` of
/// such a type that looks like an index of a slice is an error, and its message contains the code to write
/// instead.
///
/// The macro knows types by their names: `P`, `Txn` and `Root` must be those of pheap.
///
/// `#[txn(crate = "path::to::pheap")]` is the path to `pheap`, if it was renamed or re-exported.
#[proc_macro_attribute]
pub fn txn(args: TokenStream, item: TokenStream) -> TokenStream {
    txn::txn(args.into(), item.into()).into()
}
