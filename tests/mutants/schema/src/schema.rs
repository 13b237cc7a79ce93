//! All mutants of a crate: found, and written into its files with those that compile.

use crate::find::{self, Found};
use crate::point::{Id, Span};
use crate::render::{self, Rendered};
use crate::selection::Excluded;
use crate::tree::{self, Tree};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// A crate with its mutants.
pub struct Schema {
    /// Its files.
    pub files: Vec<File>,
    /// Mutants that are not there: they do not compile.
    pub unviable: BTreeSet<Id>,
    /// Mutants that are not wanted.
    excluded: BTreeSet<Id>,
    /// Mutants that are not asked for now, and so not compiled.
    unasked: BTreeSet<Id>,
    /// Names of `const fn` that the compiler calls.
    constant: BTreeSet<String>,
    rendered: BTreeMap<String, Rendered>,
}

/// A file of the crate.
pub struct File {
    /// Its name from the root of the repository.
    pub name: String,
    /// A word for its text as it was.
    pub fingerprint: String,
    /// The number of its first mutant.
    pub first: Id,
    found: Found,
    source: String,
}

/// A mutant as it is named: that does not change with the lines above it.
pub struct Named<'a> {
    /// Its number.
    pub id: Id,
    /// `crates/wire/src/arp.rs: replace + with - in parse #2`: the second one in the file that
    /// would have the same name.
    pub name: String,
    /// Its file.
    pub file: &'a File,
    /// The line and the column where it is, from 1.
    pub place: (usize, usize),
    /// Its function, of all in the file.
    pub function: usize,
}

impl Schema {
    /// Finds the mutants of a crate of this name.
    pub fn find(tree: &Tree, name: &str, exclude: &Excluded) -> io::Result<Self> {
        let mut schema = Self {
            files: vec![],
            unviable: BTreeSet::new(),
            excluded: BTreeSet::new(),
            unasked: BTreeSet::new(),
            constant: BTreeSet::new(),
            rendered: BTreeMap::new(),
        };
        let mut waiting = vec![format!("crates/{name}/src/lib.rs")];
        let mut first = 0;
        while let Some(name) = waiting.pop() {
            let source = tree.read(&name)?;
            let found = find::find(&source, first, &exclude.calls)
                .map_err(|error| io::Error::other(format!("{name}: {error}")))?;
            waiting.extend(
                found
                    .submodules
                    .iter()
                    .filter_map(|module| tree::submodule(&tree.root, &name, module)),
            );
            let count = found.mutants.len() as Id;
            let fingerprint = tree::fingerprint(&source);
            schema.files.push(File {
                name,
                fingerprint,
                first,
                found,
                source,
            });
            first += count;
        }
        let unwanted: Vec<Id> = schema
            .everything()
            .into_iter()
            .filter(|m| exclude.excludes(&m.file.name, &m.name))
            .map(|m| m.id)
            .collect();
        schema.excluded.extend(unwanted);
        Ok(schema)
    }

    /// Leaves out of what is compiled what is not `wanted`: that takes the compiler as long as
    /// what is.
    pub fn keep(&mut self, wanted: impl Fn(&Named<'_>) -> bool) {
        let unasked: Vec<Id> = self
            .everything()
            .iter()
            .filter(|mutant| !wanted(mutant))
            .map(|mutant| mutant.id)
            .collect();
        self.unasked = unasked.into_iter().collect();
    }

    /// How many numbers there are.
    pub fn count(&self) -> usize {
        self.files.iter().map(|file| file.found.mutants.len()).sum()
    }

    /// The mutants, those that do not compile too.
    pub fn named(&self) -> Vec<Named<'_>> {
        self.everything()
            .into_iter()
            .filter(|mutant| !self.excluded.contains(&mutant.id))
            .collect()
    }

    fn everything(&self) -> Vec<Named<'_>> {
        let mut all = vec![];
        for file in &self.files {
            let mut seen = BTreeMap::<&str, usize>::new();
            for (id, mutant) in (file.first..).zip(&file.found.mutants) {
                let nth = seen.entry(&mutant.what).or_default();
                *nth += 1;
                let again = if *nth == 1 {
                    String::new()
                } else {
                    format!(" #{nth}")
                };
                let name = format!("{}: {}{again}", file.name, mutant.what);
                all.push(Named {
                    id,
                    name,
                    file,
                    place: mutant.place,
                    function: mutant.function,
                });
            }
        }
        all
    }

    /// Writes the crate into the tree, with all mutants that compile as far as is known.
    pub fn write(&mut self, tree: &Tree) -> io::Result<()> {
        let (unviable, excluded, constant) = (&self.unviable, &self.excluded, &self.constant);
        let unasked = &self.unasked;
        for file in &self.files {
            let stays_const =
                |function: usize| constant.contains(&file.found.functions[function].0);
            let live = |id: Id| {
                let mutant = &file.found.mutants[(id - file.first) as usize];
                let (_, is_const) = file
                    .found
                    .functions
                    .get(mutant.function)
                    .map_or(("", false), |(n, c)| (n, *c));
                !(unviable.contains(&id)
                    || excluded.contains(&id)
                    || unasked.contains(&id)
                    || is_const && stays_const(mutant.function))
            };
            let rendered = render::render(&file.source, &file.found.points, &live, &stays_const);
            tree.write(&file.name, &rendered.text)?;
            self.rendered.insert(file.name.clone(), rendered);
        }
        Ok(())
    }

    /// The compiler has an error there: mutants are dropped for it. How many that were not yet.
    pub fn drop_at(&mut self, file: &str, span: &Span) -> usize {
        let Some(rendered) = self.rendered.get(file) else {
            return 0;
        };
        let before = self.unviable.len();
        self.unviable.extend(rendered.blamed(span));
        self.unviable.len() - before
    }

    /// The compiler itself calls functions of this name: they stay `const`, and without
    /// mutants. Whether that is news.
    pub fn keep_const(&mut self, name: &str) -> bool {
        let known = self
            .files
            .iter()
            .flat_map(|file| &file.found.functions)
            .any(|(n, is_const)| *is_const && n == name);
        known && self.constant.insert(name.to_owned())
    }

    /// All that are not in the build after all.
    pub fn settle(&mut self) {
        for file in &self.files {
            for (id, mutant) in (file.first..).zip(&file.found.mutants) {
                if let Some((name, true)) = file.found.functions.get(mutant.function)
                    && self.constant.contains(name)
                {
                    self.unviable.insert(id);
                }
            }
        }
    }
}
