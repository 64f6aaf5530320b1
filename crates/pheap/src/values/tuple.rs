//! `PTuple2` to `PTuple8`.

use pheap_macros::Persist;

use crate::layout::Plain;

macro_rules! tuples {
    ($($name:ident $id:literal $example:literal <$($param:ident $value:ident),*>;)*) => {$(
        #[doc = concat!("`", $example, "` that can live in a heap, for Rust does not define how a tuple is laid out. Its fields are `.0`, `.1` and so on; it converts")]
        /// from and to the tuple by [`into`](Into::into). A `PTuple` is a key of maps if its fields are keys
        /// that are their own borrowed form. In a struct of your own, the fields have names.
        #[derive(Persist, Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(C)]
        #[persist(own, id = $id, crate = "crate")]
        pub struct $name<$($param),*>($(
            #[allow(missing_docs)]
            pub $param
        ),*);

        impl<$($param: Plain),*> Plain for $name<$($param),*> {}

        impl<$($param),*> From<($($param),*)> for $name<$($param),*> {
            #[inline]
            fn from(($($value),*): ($($param),*)) -> Self {
                $name($($value),*)
            }
        }

        impl<$($param),*> From<$name<$($param),*>> for ($($param),*) {
            #[inline]
            fn from($name($($value),*): $name<$($param),*>) -> Self {
                ($($value),*)
            }
        }
    )*};
}

tuples! {
    PTuple2 "pheap::PTuple2" "(A, B)" <A a, B b>;
    PTuple3 "pheap::PTuple3" "(A, B, C)" <A a, B b, C c>;
    PTuple4 "pheap::PTuple4" "(A, B, C, D)" <A a, B b, C c, D d>;
    PTuple5 "pheap::PTuple5" "(A, B, C, D, E)" <A a, B b, C c, D d, E e>;
    PTuple6 "pheap::PTuple6" "(A, B, C, D, E, F)" <A a, B b, C c, D d, E e, F f>;
    PTuple7 "pheap::PTuple7" "(A, B, C, D, E, F, G)" <A a, B b, C c, D d, E e, F f, G g>;
    PTuple8 "pheap::PTuple8" "(A, B, C, D, E, F, G, H)" <A a, B b, C c, D d, E e, F f, G g, H h>;
}
