//! The program's own file in memory, without its libraries: its code, its notes, and how many
//! libraries it asks for. The loader says where they are.

#![cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "its code alone is looked at there")
)]

use crate::user::{In, Out, Text};
use libc::{Elf64_Phdr, c_int, dl_phdr_info, size_t};
use longshore_programs::instructions::OwnCalls;
use std::mem::offset_of;
use std::sync::OnceLock;

/// The loader's description of an object (`struct dl_phdr_info`), as far as it is looked at.
#[repr(C)]
struct Object<'a> {
    /// What is added to the addresses in its headers.
    base: usize,
    name: Text<'a>,
    headers: In<'a, Elf64_Phdr>,
    count: u16,
}

const _: () = assert!(offset_of!(Object<'_>, headers) == offset_of!(dl_phdr_info, dlpi_phdr));
const _: () = assert!(offset_of!(Object<'_>, count) == offset_of!(dl_phdr_info, dlpi_phnum));

/// Where a part of an object lies: nowhere if it has no length.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Part {
    start: usize,
    len: usize,
}

/// Parts of the program that are looked at, as many as a program has notes and more.
const NOTES: usize = 8;

#[repr(C)]
#[derive(Default)]
struct Parts {
    code: Part,
    dynamic: Part,
    notes: [Part; NOTES],
}

/// What looks at an object; none is looked at behind one for which it says 1.
type Look = extern "C" fn(In<'_, Object<'_>>, size_t, Out<'_, Parts>) -> c_int;

unsafe extern "C" {
    safe fn dl_iterate_phdr(look: Look, found: Out<'_, Parts>) -> c_int;
}

/// For the first object, which is the program.
extern "C" fn first(object: In<'_, Object<'_>>, _: size_t, found: Out<'_, Parts>) -> c_int {
    let (Some(object), Some(found)) = (object.as_ref(), found.as_mut()) else {
        return 1;
    };
    let mut notes = found.notes.iter_mut();
    for header in object.headers.slice(object.count.into()) {
        let part = Part {
            start: object.base + header.p_vaddr as usize,
            len: header.p_filesz as usize,
        };
        let wanted = libc::PF_X | libc::PF_R;
        match header.p_type {
            libc::PT_LOAD if header.p_flags & wanted == wanted && found.code.len == 0 => {
                found.code = part;
            }
            libc::PT_DYNAMIC => found.dynamic = part,
            libc::PT_NOTE => {
                if let Some(place) = notes.next() {
                    *place = part;
                }
            }
            _ => {}
        }
    }
    1
}

/// What is known of the program.
pub(crate) struct OwnFile {
    /// Its code: the first part of it, where there are more.
    pub(crate) code: &'static [u8],
    notes: [Part; NOTES],
    dynamic: Part,
}

impl OwnFile {
    /// The program, if it has code that can be read.
    pub(crate) fn find() -> Option<Self> {
        let mut parts = Parts::default();
        dl_iterate_phdr(first, Out::from(&mut parts));
        let Parts {
            code,
            dynamic,
            notes,
        } = parts;
        (code.len != 0).then(|| Self {
            code: code.bytes(),
            notes,
            dynamic,
        })
    }

    /// What it calls without libc. Its code is looked through once.
    pub(crate) fn calls(&self) -> OwnCalls {
        static CALLS: OnceLock<OwnCalls> = OnceLock::new();
        *CALLS.get_or_init(|| {
            let mut calls = OwnCalls::default();
            calls.look_at(self.code);
            calls
        })
    }

    /// Its notes.
    pub(crate) fn notes(&self) -> impl Iterator<Item = &'static [u8]> {
        self.notes.into_iter().map(Part::bytes)
    }

    /// Whether it asks for any library.
    pub(crate) fn has_libraries(&self) -> bool {
        const NEEDED: u64 = 1;
        let entries = self.dynamic.bytes().chunks_exact(2 * size_of::<u64>());
        let mut tags = entries
            .filter_map(|entry| entry.first_chunk())
            .map(|tag| u64::from_ne_bytes(*tag));
        tags.any(|tag| tag == NEEDED)
    }
}

impl Part {
    fn bytes(self) -> &'static [u8] {
        if self.len == 0 {
            return &[];
        }
        let start = std::ptr::with_exposed_provenance(self.start);
        // SAFETY: the loader has mapped so many bytes of the program's file there, to be read, and
        // the program is never unloaded.
        unsafe { std::slice::from_raw_parts(start, self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_this_programs() {
        let own = OwnFile::find().unwrap();
        let this = the_file_is_this_programs as fn() as usize;
        let range = own.code.as_ptr_range();
        assert!((range.start.addr()..range.end.addr()).contains(&this));
        assert!(own.has_libraries());
        // Its linker has put its identity there.
        assert!(
            own.notes()
                .any(|notes| notes.windows(4).any(|w| w == b"GNU\0"))
        );
    }
}
