//! A small assembler for the kernel's classic packet-filter machine.
//!
//! Answers for turning "number → what to do" into a balanced tree of comparisons, so that both attaching
//! (which the kernel does by trying every number) and running stay cheap. It leaves meaning to
//! [`super::policy`].
//! Invariant: the result depends on nothing but the input, so the same plan gives the same program.

use super::policy::{Action, Check, Inet};

/// Allow the call.
pub(super) const ALLOW: u32 = 0x7fff_0000;
/// Kill the whole process.
pub(super) const KILL: u32 = 0x8000_0000;
/// Ask the supervisor.
pub(super) const NOTIFY: u32 = 0x7fc0_0000;
/// Tell the tracer; without one the call does not exist.
pub(super) const TRACE: u32 = 0x7ff0_0000;

/// Answer with this error.
pub(super) fn error(errno: i32) -> u32 {
    0x0005_0000 | (errno as u32 & 0xffff)
}

/// Have the tracer answer with this error, and tell of it.
pub(super) fn told(errno: i32) -> u32 {
    TRACE | (errno as u32 & 0xffff)
}

const LOAD: u16 = 0x20;
const JEQ: u16 = 0x15;
const JGE: u16 = 0x35;
const JSET: u16 = 0x45;
const JUMP: u16 = 0x05;
const AND: u16 = 0x54;
const RETURN: u16 = 0x06;

/// Offset of the call number in what the machine sees.
const AT_NUMBER: u32 = 0;
/// Offset of the calling convention.
const AT_ARCH: u32 = 4;

/// Offset of the low half of argument `index`: the only half that matters for an `int`.
fn at_argument(index: u32) -> u32 {
    16 + 8 * index
}

/// One instruction of the machine, laid out as the kernel reads it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    code: u16,
    yes: u8,
    no: u8,
    value: u32,
}

fn plain(code: u16, value: u32) -> Instruction {
    Instruction { code, yes: 0, no: 0, value }
}

fn branch(code: u16, value: u32, yes: u8, no: u8) -> Instruction {
    Instruction { code, yes, no, value }
}

/// What each number leads to, in little memory: a palette of actions and marks into it.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    palette: Vec<Action>,
    /// From this number on, this entry of the palette.
    marks: Vec<(u16, u8)>,
}

impl Sheet {
    /// The place of `action` in the palette.
    pub(super) fn colour(&mut self, action: Action) -> u8 {
        let at = self.palette.iter().position(|known| *known == action).unwrap_or_else(|| {
            self.palette.push(action);
            self.palette.len() - 1
        });
        u8::try_from(at).unwrap_or(u8::MAX)
    }

    /// From `number` on (not below any before) the entry `colour` holds.
    pub(super) fn mark(&mut self, number: u32, colour: u8) {
        let number = u16::try_from(number).unwrap_or(u16::MAX);
        if self.marks.last().is_some_and(|(at, _)| *at == number) {
            self.marks.pop();
        }
        if self.marks.last().is_none_or(|(_, last)| *last != colour) {
            self.marks.push((number, colour));
        }
    }
}

/// Where a comparison leads.
#[derive(Clone, Copy)]
enum Target {
    Node(u8),
    Pad(u8),
}

struct Node {
    pivot: u16,
    below: Target,
    from: Target,
}

/// The number of the calling convention, whether 32-bit-pointer numbers exist, and what each number leads to.
pub(super) fn assemble(arch: u32, foreign_bit: Option<u32>, sheet: &Sheet) -> Vec<Instruction> {
    let mut nodes: Vec<Node> = Vec::with_capacity(sheet.marks.len());
    grow(&sheet.marks, &mut nodes);
    let mut program = Vec::with_capacity(256);
    program.extend([
        plain(LOAD, AT_ARCH),
        branch(JEQ, arch, 1, 0),
        plain(RETURN, KILL),
        plain(LOAD, AT_NUMBER),
    ]);
    if let Some(bit) = foreign_bit {
        program.push(branch(JSET, bit, 0, 1));
        program.push(plain(RETURN, error(libc::ENOSYS)));
    }
    for (at, node) in nodes.iter().enumerate() {
        let reach = |target: Target| {
            let to = match target {
                Target::Node(index) => usize::from(index),
                Target::Pad(index) => nodes.len() + usize::from(index),
            };
            u8::try_from(to - at - 1).unwrap_or(u8::MAX)
        };
        program.push(branch(JGE, u32::from(node.pivot), reach(node.from), reach(node.below)));
    }
    land(&sheet.palette, &mut program);
    program
}

/// Adds the tree for `marks` (sorted, each holding until the next) and says where it starts.
fn grow(marks: &[(u16, u8)], nodes: &mut Vec<Node>) -> Target {
    if let [(_, colour)] = marks {
        return Target::Pad(*colour);
    }
    let (low, high) = marks.split_at(marks.len() / 2);
    let at = nodes.len();
    nodes.push(Node { pivot: high[0].0, below: Target::Pad(0), from: Target::Pad(0) });
    nodes[at].below = grow(low, nodes);
    nodes[at].from = grow(high, nodes);
    Target::Node(u8::try_from(at).unwrap_or(u8::MAX))
}

/// Appends one landing pad per action, then the checks they lead to.
fn land(pads: &[Action], program: &mut Vec<Instruction>) {
    let mut bodies: Vec<Instruction> = Vec::new();
    for (at, pad) in pads.iter().enumerate() {
        match pad {
            Action::Return(value) => program.push(plain(RETURN, *value)),
            Action::Look(check) | Action::LookAndTell(check) => {
                let skip = pads.len() - at - 1 + bodies.len();
                program.push(plain(JUMP, u32::try_from(skip).unwrap_or(u32::MAX)));
                let tells = matches!(pad, Action::LookAndTell(_));
                bodies.extend(body(*check).into_iter().map(|one| if tells { telling(one) } else { one }));
            }
        }
    }
    program.extend(bodies);
}

/// The same instruction, with every refusal left to the tracer.
fn telling(instruction: Instruction) -> Instruction {
    let refuses = instruction.code == RETURN && instruction.value & !0xffff == error(0);
    let value = if refuses { TRACE | instruction.value & 0xffff } else { instruction.value };
    Instruction { value, ..instruction }
}

/// The instructions of one check; every path through them returns.
fn body(check: Check) -> Vec<Instruction> {
    let refuse = plain(RETURN, error(libc::EPERM));
    let allow = plain(RETURN, ALLOW);
    match check {
        Check::NoneOfBits { argument, mask } => {
            vec![plain(LOAD, at_argument(argument)), branch(JSET, mask, 1, 0), allow, refuse]
        }
        Check::NoneOf { argument, values, answer } => {
            let mut code = vec![plain(LOAD, at_argument(argument))];
            for (at, value) in values.iter().enumerate() {
                code.push(branch(JEQ, *value, u8::try_from(values.len() - at).unwrap_or(u8::MAX), 0));
            }
            code.extend([allow, plain(RETURN, answer)]);
            code
        }
        Check::OneOf { argument, values } => {
            let mut code = vec![plain(LOAD, at_argument(argument))];
            for (at, value) in values.iter().enumerate() {
                code.push(branch(JEQ, *value, u8::try_from(values.len() - at).unwrap_or(u8::MAX), 0));
            }
            code.extend([refuse, allow]);
            code
        }
        Check::Exactly { values: [first, second] } => vec![
            plain(LOAD, at_argument(0)),
            branch(JEQ, first, 0, 2),
            plain(LOAD, at_argument(1)),
            branch(JEQ, second, 1, 0),
            refuse,
            allow,
        ],
        Check::Open { flags, mode, changing, otherwise, reading } => vec![
            plain(LOAD, at_argument(flags)),
            branch(JSET, PATH_ONLY, 5, 0),
            branch(JSET, changing, 0, 4),
            branch(JSET, MAKING, 0, 2),
            plain(LOAD, at_argument(mode)),
            branch(JSET, SET_ID, 2, 0),
            plain(RETURN, otherwise),
            plain(RETURN, reading),
            refuse,
        ],
        Check::Node { mode } => vec![
            plain(LOAD, at_argument(mode)),
            branch(JSET, SET_ID, 4, 0),
            plain(AND, 0xf000),
            branch(JEQ, 0x2000, 2, 0),
            branch(JEQ, 0x6000, 1, 0),
            allow,
            refuse,
        ],
        Check::Socket { unix, inet } => socket(unix, inet),
        Check::Device { tricks, owners, open } => device(tricks, owners, open),
    }
}

/// Tricks first, then what is open to all, then whose it is.
fn device(tricks: &[u32], owners: [u32; 2], open: [u32; 3]) -> Vec<Instruction> {
    /// Of a device call's number, the byte that says whose it is.
    const OWNER: u32 = 0xff00;
    let mut code = vec![plain(LOAD, at_argument(1))];
    let past = |further: usize| u8::try_from(further).unwrap_or(u8::MAX);
    let all = tricks.len() + open.len() + 1 + owners.len();
    for (at, value) in tricks.iter().enumerate() {
        code.push(branch(JEQ, *value, past(all - at), 0));
    }
    for (at, value) in open.iter().enumerate() {
        code.push(branch(JEQ, *value, past(all - tricks.len() - at - 1), 0));
    }
    code.push(plain(AND, OWNER));
    for (at, value) in owners.iter().enumerate() {
        code.push(branch(JEQ, *value, past(owners.len() - at), 0));
    }
    code.extend([plain(RETURN, ALLOW), plain(RETURN, error(libc::EPERM))]);
    code
}

/// `O_PATH`: nothing is read or written.
const PATH_ONLY: u32 = 0x20_0000;
/// `O_CREAT` and the marker bit of `O_TMPFILE`: the mode argument counts.
const MAKING: u32 = 0x40_0040;
/// Set-user-ID and set-group-ID.
const SET_ID: u32 = 0o6000;

/// Families and kinds of sockets: UNIX and IP where allowed, route netlink in a network of one's own, nothing else.
fn socket(unix: bool, inet: Inet) -> Vec<Instruction> {
    let family = plain(RETURN, error(libc::EAFNOSUPPORT));
    let refuse = plain(RETURN, error(libc::EPERM));
    let allow = plain(RETURN, ALLOW);
    // On the host's network: no netlink, no datagrams.
    let (netlink, datagrams, datagram_protocol) = match inet {
        Inet::Refused | Inet::Own => (11, 0, 0),
        Inet::OnBehalf => (12, 6, 3),
    };
    vec![
        plain(LOAD, at_argument(0)),
        branch(JEQ, 1, 0, 1),
        if unix { allow } else { refuse },
        branch(JEQ, 16, 0, 3),
        plain(LOAD, at_argument(2)),
        branch(JEQ, 0, netlink, 0),
        family,
        branch(JEQ, 2, 1, 0),
        branch(JEQ, 10, 0, 9),
        plain(LOAD, at_argument(1)),
        plain(AND, 0xf),
        branch(JEQ, 1, 1, 0),
        branch(JEQ, 2, datagrams, 6),
        plain(LOAD, at_argument(2)),
        branch(JEQ, 0, 2, 0),
        branch(JEQ, 6, 1, 0),
        branch(JEQ, 17, datagram_protocol, 3),
        if inet == Inet::Refused { refuse } else { allow },
        family,
        refuse,
        plain(RETURN, error(libc::EPROTONOSUPPORT)),
    ]
}
