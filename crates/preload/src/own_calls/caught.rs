//! What the kernel calls for a system call of the program's own, and where the thread goes on.

use super::frame::{Frame, Make, Registers, Way};
use super::stacks::{self, Place};
use super::{entry, own_action};
use crate::user::{Argument, Out};
use libc::{c_int, c_long, siginfo_t, ucontext_t};
use std::sync::OnceLock;

/// What a SIGSYS says that was raised for a call (asm-generic/siginfo.h).
const SYS_USER_DISPATCH: c_int = 2;
/// Bytes below its stack that code may use (System V ABI, AMD64, 3.2.2).
const RED_ZONE: usize = 128;

/// What makes the calls that are not for the kernel.
#[derive(Debug)]
pub(crate) struct Serves {
    /// Which these are.
    pub(crate) concerns: fn(&Frame) -> bool,
    pub(crate) make: Make,
}

impl Serves {
    fn maker(&self, frame: &Frame) -> Option<Make> {
        (self.concerns)(frame).then_some(self.make)
    }
}

static SERVES: OnceLock<Serves> = OnceLock::new();

/// Calls are served so from now on.
pub(super) fn serve_by(serves: Serves) {
    let _ = SERVES.set(serves);
}

/// What the kernel calls for SIGSYS.
pub(super) extern "C-unwind" fn caught(
    signal: c_int,
    info: Out<'_, siginfo_t>,
    context: Out<'_, ucontext_t>,
) {
    let is_call = info
        .as_in()
        .as_ref()
        .is_some_and(|i| i.si_code == SYS_USER_DISPATCH);
    if !is_call {
        return own_action::run(signal, info, context);
    }
    let (Some(context), Some(serves)) = (context.as_mut(), SERVES.get()) else {
        return;
    };
    let is_on_alternative = is_on_alternative(context);
    let registers = &mut context.uc_mcontext.gregs;
    let place = stacks::take();
    match (registers[libc::REG_RAX as usize], place) {
        // Where its stack is says what it goes back to.
        (libc::SYS_rt_sigreturn, place) => {
            place.into_iter().for_each(Place::give_back);
            registers[libc::REG_RIP as usize] = entry::bare as *const () as i64;
        }
        // They change what is the thread's, and not only while this handler runs.
        (number, Some(place)) if is_on_alternative && !changes_thread(number) => {
            let mut frame = Frame::of(registers);
            let make = serves.maker(&frame).unwrap_or(pass);
            entry::call_on(place.top, make, Out::from(&mut frame));
            place.give_back();
            registers[libc::REG_RAX as usize] = frame.number;
        }
        (_, place) => go_on_elsewhere(registers, place, serves),
    }
}

/// Whether the thread is in a handler that runs on a stack for such. It would seem free to the
/// kernel if it was left, and the next handler would run over that one: so the call is made in
/// ours, while all signals wait.
fn is_on_alternative(context: &ucontext_t) -> bool {
    let stack = context.uc_mcontext.gregs[libc::REG_RSP as usize] as usize;
    let (start, len) = (context.uc_stack.ss_sp.addr(), context.uc_stack.ss_size);
    context.uc_stack.ss_flags & libc::SS_DISABLE == 0 && (start..start + len).contains(&stack)
}

/// Whether a call changes which signals are held back, or the stacks for handlers, or goes on
/// elsewhere.
fn changes_thread(number: c_long) -> bool {
    [
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigsuspend,
        libc::SYS_sigaltstack,
        libc::SYS_clone,
        libc::SYS_clone3,
        libc::SYS_fork,
        libc::SYS_vfork,
    ]
    .contains(&number)
}

/// Has a thread that was about to make a call go on with that in `entry`.
fn go_on_elsewhere(registers: &mut Registers, place: Option<Place>, serves: &Serves) {
    let frame = Frame::of(registers);
    let stack = registers[libc::REG_RSP as usize] as usize;
    let back = registers[libc::REG_RIP as usize] as usize;
    let (top, in_use) = match place {
        Some(place) => (place.top, place.in_use),
        // Handlers within handlers have taken all: it is on the program's own.
        None => ((stack - RED_ZONE) & !15, stacks::nobodys()),
    };
    let (new_stack, maker) = (frame.new_stack(), serves.maker(&frame));
    let put = |top: usize, in_use, stack| {
        let at = top - size_of::<Way>();
        Out::from(Argument::from(at as u64)).put(Way {
            back,
            in_use,
            stack,
            new_stack,
            make: maker.map_or(0, |make| make as usize),
        });
        at as i64
    };
    registers[libc::REG_RSP as usize] = put(top, in_use, stack);
    let entry = if new_stack != 0 {
        // What is made begins there, behind the call.
        registers[libc::REG_RSI as usize] = put(new_stack, stacks::nobodys(), new_stack);
        entry::cloned as *const ()
    } else if maker.is_some() {
        entry::served as *const ()
    } else {
        entry::passed as *const ()
    };
    registers[libc::REG_RIP as usize] = entry as i64;
}

/// Has the kernel make a call.
extern "C-unwind" fn pass(frame: Out<'_, Frame>) {
    if let Some(frame) = frame.as_mut() {
        frame.number = frame.call().make();
    }
}
