//! What a function may return in place of what it works out, by its return type.

use syn::{GenericArgument, PathArguments, ReturnType, Type};

/// Expressions of the type, as far as can be said without knowing more than its name.
pub fn of_return(output: &ReturnType) -> Vec<String> {
    match output {
        ReturnType::Default => vec!["()".into()],
        ReturnType::Type(_, of) => of_type(of),
    }
}

fn of_type(of: &Type) -> Vec<String> {
    match of {
        Type::Paren(inner) => of_type(&inner.elem),
        Type::Group(inner) => of_type(&inner.elem),
        Type::Tuple(tuple) if tuple.elems.is_empty() => vec!["()".into()],
        Type::Tuple(tuple) => product(tuple.elems.iter().map(of_type)),
        Type::Reference(reference) => of_reference(&reference.elem, reference.mutability.is_some()),
        Type::Array(array) => {
            let len = quoted(&array.len);
            of_type(&array.elem)
                .iter()
                .map(|value| format!("[{value}; {len}]"))
                .collect()
        }
        Type::Path(path) => of_path(path),
        // No value is known of what is never, or anything, or not to be named.
        Type::Never(_) | Type::ImplTrait(_) | Type::Ptr(_) | Type::FnPtr(_) => vec![],
        _ => default(),
    }
}

fn of_reference(to: &Type, mutable: bool) -> Vec<String> {
    match to {
        Type::Path(path) if path.path.is_ident("str") && !mutable => {
            vec!["\"\"".into(), "\"xyzzy\"".into()]
        }
        Type::Slice(slice) => {
            let mut values = vec!["Vec::leak(Vec::new())".to_owned()];
            values.extend(
                of_type(&slice.elem)
                    .iter()
                    .map(|value| format!("Vec::leak(vec![{value}])")),
            );
            values
        }
        Type::TraitObject(_) => vec![],
        _ => of_type(to)
            .iter()
            .map(|value| format!("Box::leak(Box::new({value}))"))
            .collect(),
    }
}

fn of_path(path: &syn::TypePath) -> Vec<String> {
    let Some(last) = path.path.segments.last() else {
        return vec![];
    };
    let first_argument = match &last.arguments {
        PathArguments::AngleBracketed(arguments) => {
            arguments.args.iter().find_map(|argument| match argument {
                GenericArgument::Type(of) => Some(of),
                _ => None,
            })
        }
        _ => None,
    };
    let each = |before: &str, after: &str| -> Vec<String> {
        let inner = first_argument.map_or_else(default, of_type);
        inner
            .iter()
            .map(|value| format!("{before}{value}{after}"))
            .collect()
    };
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect();
    match last.ident.to_string().as_str() {
        "bool" => words(&["true", "false"]),
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => words(&["0", "1"]),
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => words(&["0", "1", "-1"]),
        "f32" | "f64" => words(&["0.0", "1.0", "-1.0"]),
        "String" => words(&["String::new()", "\"xyzzy\".into()"]),
        "Option" => [vec!["None".to_owned()], each("Some(", ")")].concat(),
        "Result" => each("Ok(", ")"),
        "Vec" => [vec!["vec![]".to_owned()], each("vec![", "]")].concat(),
        "Box" => each("Box::new(", ")"),
        _ => default(),
    }
}

fn default() -> Vec<String> {
    vec!["Default::default()".into()]
}

/// All tuples of one value each.
fn product(each: impl Iterator<Item = Vec<String>>) -> Vec<String> {
    let mut tuples = vec![String::new()];
    for values in each {
        tuples = tuples
            .iter()
            .flat_map(|begun| {
                values.iter().map(move |value| {
                    if begun.is_empty() {
                        value.clone()
                    } else {
                        format!("{begun}, {value}")
                    }
                })
            })
            .collect();
    }
    tuples.iter().map(|inner| format!("({inner})")).collect()
}

/// An expression as the compiler reads it.
fn quoted(expression: &syn::Expr) -> String {
    use syn::spanned::Spanned;
    expression
        .span()
        .source_text()
        .unwrap_or_else(|| "0".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_str;

    #[test]
    fn values_go_by_the_type_that_is_returned() {
        for (output, expected) in [
            ("-> bool", "true|false"),
            ("-> u16", "0|1"),
            ("-> Option<bool>", "None|Some(true)|Some(false)"),
            ("-> io::Result<()>", "Ok(())"),
            ("-> fmt::Result", "Ok(Default::default())"),
            ("-> (bool, u8)", "(true, 0)|(true, 1)|(false, 0)|(false, 1)"),
            ("-> [u8; 4]", "[0; 4]|[1; 4]"),
            ("-> &'static str", "\"\"|\"xyzzy\""),
            (
                "-> &[u8]",
                "Vec::leak(Vec::new())|Vec::leak(vec![0])|Vec::leak(vec![1])",
            ),
            ("-> Vec<Seq>", "vec![]|vec![Default::default()]"),
            ("-> Self", "Default::default()"),
            ("-> !", ""),
            ("-> impl Iterator<Item = u8>", ""),
            ("", "()"),
        ] {
            let parsed: ReturnType = parse_str(output).unwrap();
            assert_eq!(of_return(&parsed).join("|"), expected, "{output}");
        }
    }
}
