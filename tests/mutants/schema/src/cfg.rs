//! Whether an item is in the code under test: its `#[cfg]`, as a build of the tests of
//! another crate on this machine has it.

use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, Lit, Meta, Token};

/// Whether all `#[cfg]` among these hold. What is there for tests alone is not.
pub fn holds(attributes: &[Attribute]) -> bool {
    !attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || (attribute.path().is_ident("cfg")
                && attribute
                    .parse_args::<Meta>()
                    .is_ok_and(|meta| !predicate(&meta)))
    })
}

fn predicate(meta: &Meta) -> bool {
    let all_of = || -> Vec<Meta> {
        let parsed = match meta {
            Meta::List(list) => list
                .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
                .ok(),
            _ => None,
        };
        parsed.into_iter().flatten().collect()
    };
    let name = meta
        .path()
        .get_ident()
        .map(ToString::to_string)
        .unwrap_or_default();
    match name.as_str() {
        "all" => all_of().iter().all(predicate),
        "any" => all_of().iter().any(predicate),
        "not" => !all_of().iter().all(predicate),
        "debug_assertions" | "unix" => true,
        "target_os" => value(meta) == std::env::consts::OS,
        "target_arch" => value(meta) == std::env::consts::ARCH,
        "target_endian" => {
            value(meta)
                == if cfg!(target_endian = "little") {
                    "little"
                } else {
                    "big"
                }
        }
        "target_pointer_width" => value(meta) == usize::BITS.to_string(),
        // Of test, doctest, loom, miri, fuzzing and all features, none.
        _ => false,
    }
}

fn value(meta: &Meta) -> String {
    match meta {
        Meta::NameValue(pair) => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => text.value(),
                _ => String::new(),
            },
            _ => String::new(),
        },
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    #[test]
    fn what_is_there_for_tests_or_models_is_not_the_code_under_test() {
        let attributes: [(Attribute, bool); 9] = [
            (parse_quote!(#[inline]), true),
            (parse_quote!(#[test]), false),
            (parse_quote!(#[cfg(test)]), false),
            (parse_quote!(#[cfg(not(test))]), true),
            (parse_quote!(#[cfg(any(test, feature = "testing"))]), false),
            (
                parse_quote!(#[cfg(all(debug_assertions, not(loom), not(miri)))]),
                true,
            ),
            (
                parse_quote!(#[cfg(target_os = "linux")]),
                cfg!(target_os = "linux"),
            ),
            (parse_quote!(#[cfg(target_arch = "none")]), false),
            (parse_quote!(#[cfg(loom)]), false),
        ];
        for (attribute, held) in attributes {
            assert_eq!(holds(&[attribute]), held);
        }
    }
}
