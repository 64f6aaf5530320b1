//! The macros of the `pheap` crate, which re-exports them: [`macro@Persist`] and [`macro@txn`].
//!
//! They write no `unsafe`: they say what they have seen to `macro_rules!` of `pheap` (its `__private`), which check it. For the path to `pheap` is the user's to
//! choose, and what is `unsafe` must not name anything by it.

mod derive;
mod errors;
mod txn;

use proc_macro::TokenStream;

/// `quote!` whose local variables cannot collide with those of the user. In errors the code seems to stand where the
/// macro was called, or at a span that is given first.
macro_rules! hygienic {
    (at $span:expr => $($tokens:tt)*) => {
        ::quote::quote_spanned!(crate::hygienic_at($span)=> $($tokens)*)
    };
    ($($tokens:tt)*) => { ::quote::quote_spanned!(::proc_macro2::Span::mixed_site()=> $($tokens)*) };
}
pub(crate) use hygienic;

/// Where names mean what they mean here, and errors are shown at `span`. To be asked for once for each place: it is a call of the compiler.
fn hygienic_at(span: proc_macro2::Span) -> proc_macro2::Span {
    proc_macro2::Span::mixed_site().located_at(span)
}

/// Lets a struct or enum live in a persistent heap.
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
/// # What it asks for
///
/// * **A layout that the language defines.** `#[repr(C)]` or `#[repr(transparent)]` on a struct, `#[repr(u8)]` or another
///   fixed-width integer on an enum. The file outlives the compiler that laid it out.
/// * **Fields that are `Persist`**: fixed-width numbers, `bool`, `char`, arrays, `P`, `Option<P>`, `NonZero` and the like, and types that derive it. `POption`, `PTuple2`, `PDuration` and `PSystemTime` stand for
///   types whose layout Rust does not define, and `Stored<T, Adapter>` for types of other crates.
/// * **At most one lifetime**, the brand of the transaction.
/// * **No `Drop`** (nothing in a heap is ever dropped) **and no `Deref`** (a store through it could not be seen).
/// * **No attribute macro below it** that changes the type: put the derive below that attribute.
///
/// Type parameters get a `Persist` bound. Bounds written on the type itself must hold at every brand, so `struct Pair<T: Copy>`
/// is `Persist` where `T::At<'a>: Copy` for every `'a`; most bounds are better placed on the functions that need them.
///
/// # Attributes
///
/// * `#[persist(id = "shop.order")]`: the name under which the heap knows the type, instead of its Rust name.
///   It consists of letters, digits, `_`, `.`, `-`, `/` and `:` (letters need not be ASCII), and does not begin with `pheap::`.
/// * `#[persist(key)]`: the type can be a key of `PHashMap` and `PBTreeMap`, looked up by itself. It must be `Copy`, `Eq` and `Ord`, have no
///   parameters, and fields that are keys of this kind themselves (numbers, `bool`, `char`, `[u8; N]`, `POption`, `PSystemTime` and the like, other types with `#[persist(key)]`).
/// * `#[persist(serde)]`: values can be exported and imported by way of serde, represented as serde's own derives do it. It needs the feature `serde` of
///   `pheap`, and fields that can be too; type parameters get bounds for it, and may declare none themselves.
///   A field of type `Option<P<T>>` may be missing in what is imported. See `pheap::exchange`.
/// * `#[persist(was = "Order")]` on the type, a field or a variant: a name that it had, of which there may be several. `#[persist(since = 2)]` on a field or variant: it came with this version of the
///   type. With these, a heap of an earlier version opens as it is: the field must lie where a `pheap::Spare` was, and is zero (`None`, empty) in objects that are older; the variant must not make the
///   enum larger.
/// * `#[persist(since = 2, default = 7)]` on a field: what it is in objects that are older, an expression
///   that is evaluated for each of them. `#[persist(removed = "x")]` on a
///   struct or variant: a field that it has no more. For these, and what is larger or in another place,
///   objects are converted: `pheap::Heap::evolve`.
/// * `#[persist(crate = "path::to::pheap")]`: where `pheap` is, if it was renamed or re-exported.
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

/// Makes the stores of a function cheaper, and may open the transaction for it.
///
/// A store such as `tx[p].len += 1` makes the whole object crash-safe, since `tx[p]` hands out a `&mut` to all of it. Under
/// `#[txn]` the same line makes only that field crash-safe. Leaving the attribute out costs speed, never safety.
///
/// # A function that joins its caller's transaction
///
/// It has a parameter of type `&mut Txn<'r>`, of any name (or several, one per root).
///
/// ```
/// # use pheap::{P, Persist, Root, Txn, txn};
/// # #[derive(Persist)] #[repr(C)] struct Node<'r> { value: u64, next: Option<P<'r, Node<'r>>> }
/// # #[derive(Persist, Default)] #[repr(C)] struct List<'r> { head: Option<P<'r, Node<'r>>>, len: u64 }
/// #[txn]
/// fn push<'r>(tx: &mut Txn<'r>, list: P<'r, List<'r>>, value: u64) -> pheap::Result<()> {
///     let node = tx.alloc(Node { value, next: tx[list].head })?;
///     tx[list].head = Some(node); // only this field is logged ...
///     tx[list].len += 1;          // ... and this one
///     Ok(())
/// }
/// ```
///
/// # A function that opens a transaction
///
/// It has a parameter of type `&Root<T>`. In its body that name is the `P` to the root object and `tx` is the transaction;
/// `?` and `return Err(..)` roll it back. It returns a `Result<_, E>` where `E: From<pheap::Error>`.
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
/// # What is rewritten
///
/// Assignments (`=`, `+=`, …) to `tx[e]`, followed by any chain of fields and `[i]` of arrays and slices, in the whole body except
/// nested functions and the arguments of macros. `e` and `i` are evaluated before the transaction is borrowed, so
/// `tx[tx[a].next.unwrap()].val = 5` compiles; otherwise types, values and order of evaluation are those of the plain code.
/// (Temporaries of `e` and `i` are dropped as soon as these are evaluated. So in `tx[*cell.borrow()].sum += value()`, with a `+=` that
/// is an `AddAssign` of a type of yours, `value` may borrow the `cell` mutably.)
/// Two assignments to different objects that follow each other share one fence if each `e` and `i` is a plain variable or a
/// literal. An `IndexMut` of a type of yours is not seen through: `[i]` of that type is an error, which says what to write.
///
/// In loops, reads of `tx[p]` as well, if `p` is a parameter of type `P<..>`, and nothing can be borrowed mutably there: where the object is
/// is kept in a variable, and the next access is two compares. That means the same, too.
///
/// Types are known by their names: `P`, `Txn` and `Root` must be those of pheap.
///
/// `#[txn(crate = "path::to::pheap")]` says where `pheap` is, if it was renamed or re-exported.
#[proc_macro_attribute]
pub fn txn(args: TokenStream, item: TokenStream) -> TokenStream {
    txn::txn(args.into(), item.into()).into()
}
