//! Addresses that stand for names inside: 198.18.0.0/15, which leads nowhere in the world.
//!
//! Answers for names and addresses meeting one another. It leaves what a name leads to outside to the resolver.
//! Invariant: an address stands for one name at a time, and is given to another only after all others were used.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;

const FIRST: u32 = u32::from_be_bytes([198, 18, 0, 1]);
/// The last block is the fence's own.
const LAST: u32 = u32::from_be_bytes([198, 19, 254, 254]);

/// Whether an address stands for a name.
pub(crate) fn is_synthetic(address: Ipv4Addr) -> bool {
    address.octets()[0] == 198 && matches!(address.octets()[1], 18 | 19)
}

/// Which address stands for which name.
#[derive(Debug)]
pub(crate) struct Table {
    most: usize,
    next: u32,
    clock: u64,
    by_name: HashMap<Box<str>, (u32, u64)>,
    by_address: HashMap<u32, Box<str>>,
    /// Names by when they were last used.
    by_use: BTreeMap<u64, Box<str>>,
}

impl Table {
    /// A table for this many names.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most: most.max(1),
            next: FIRST,
            clock: 0,
            by_name: HashMap::new(),
            by_address: HashMap::new(),
            by_use: BTreeMap::new(),
        }
    }

    /// The address of a name; the one that was not used for longest makes room.
    pub(crate) fn address_of(&mut self, name: &str) -> Ipv4Addr {
        if let Some((address, used)) = self.by_name.get(name).copied() {
            self.touch(name, used);
            return address.into();
        }
        if self.by_name.len() >= self.most
            && let Some((_, oldest)) = self.by_use.pop_first()
            && let Some((address, _)) = self.by_name.remove(&oldest)
        {
            self.by_address.remove(&address);
        }
        let address = self.free();
        self.clock += 1;
        self.by_name.insert(name.into(), (address, self.clock));
        self.by_address.insert(address, name.into());
        self.by_use.insert(self.clock, name.into());
        address.into()
    }

    /// The name of an address.
    pub(crate) fn name_of(&mut self, address: Ipv4Addr) -> Option<Box<str>> {
        let name = self.by_address.get(&u32::from(address))?.clone();
        if let Some((_, used)) = self.by_name.get(&name).copied() {
            self.touch(&name, used);
        }
        Some(name)
    }

    fn touch(&mut self, name: &str, used: u64) {
        self.clock += 1;
        let clock = self.clock;
        if let Some(name) = self.by_use.remove(&used) {
            self.by_use.insert(clock, name);
        }
        if let Some((_, used)) = self.by_name.get_mut(name) {
            *used = clock;
        }
    }

    /// The next address that is free; there are more addresses than names.
    fn free(&mut self) -> u32 {
        loop {
            let address = self.next;
            self.next = if address == LAST { FIRST } else { address + 1 };
            // Addresses that end in 0 or 255 look like those of networks to some programs.
            if !matches!(address & 0xff, 0 | 255) && !self.by_address.contains_key(&address) {
                return address;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_address() {
        let mut table = Table::new(8);
        let a = table.address_of("a.example");
        let b = table.address_of("b.example");
        assert_ne!(a, b);
        assert!(is_synthetic(a) && is_synthetic(b));
        assert_eq!(table.address_of("a.example"), a);
        assert_eq!(table.name_of(b).as_deref(), Some("b.example"));
        assert_eq!(table.name_of(Ipv4Addr::new(198, 18, 9, 9)), None);
    }

    #[test]
    fn the_name_not_used_for_longest_makes_room_and_its_address_rests() {
        let mut table = Table::new(2);
        let a = table.address_of("a");
        table.address_of("b");
        table.name_of(a);
        let c = table.address_of("c");
        assert_eq!(table.name_of(a).as_deref(), Some("a"));
        assert!(table.by_name.len() == 2 && table.by_use.len() == 2 && !table.by_name.contains_key("b"));
        assert!(c > a);
    }

    #[test]
    fn a_flood_of_names_stays_within_bounds() {
        let mut table = Table::new(100);
        for number in 0..300_000 {
            table.address_of(&format!("n{number}.example"));
        }
        assert_eq!((table.by_name.len(), table.by_address.len(), table.by_use.len()), (100, 100, 100));
    }
}
