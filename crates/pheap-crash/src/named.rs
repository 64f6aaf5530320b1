//! Enums whose variants have names, which the text of programs uses.

/// Declares an enum of named variants. `or Inner` adds a variant that holds an `Inner` and has its name.
macro_rules! named {
    (
        $(#[$meta:meta])* pub enum $Enum:ident { $($(#[$doc:meta])* $Variant:ident = $name:literal,)* }
        $(or $(#[$inner_doc:meta])* $Inner:ident)?
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $Enum {
            $($(#[$doc])* $Variant,)*
            $($(#[$inner_doc])* $Inner($Inner),)?
        }

        impl $Enum {
            /// The variants that have a name here, without those of `Inner`.
            pub const ALL: &[$Enum] = &[$($Enum::$Variant),*];

            /// Returns the name.
            pub fn name(self) -> &'static str {
                match self {
                    $($Enum::$Variant => $name,)*
                    $($Enum::$Inner(inner) => $Inner::name(inner),)?
                }
            }

            /// Returns the variant with this name, if there is one.
            pub fn named(name: &str) -> Option<$Enum> {
                let found = $Enum::ALL.iter().copied().find(|one| one.name() == name);
                $(let found = found.or_else(|| $Inner::named(name).map($Enum::$Inner));)?
                found
            }
        }
    };
}
pub(crate) use named;
