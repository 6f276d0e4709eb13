//! Memory that is counted and never there: addresses, blocks, and what is left on each device.
//!
//! Each device has a part of one reserved range of addresses, so an address alone tells its device. A block counts in steps of
//! 2 MiB, as the driver maps pages; what PyTorch asks for always comes in such steps.

use std::collections::{BTreeMap, HashMap};

use super::settings::PhantomSettings;

/// What a block counts is a multiple of this.
pub(super) const PAGE: usize = 2 << 20;

/// Why memory was not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemoryError {
    /// The device is full.
    OutOfMemory,
    /// There is no such device, handle or address.
    Invalid,
}

/// One device: what is used of it, and the addresses that it has not given yet.
#[derive(Debug)]
struct Device {
    used: usize,
    peak: usize,
    next: usize,
    end: usize,
}

/// Physical memory of `cuMemCreate`. It is given back when it was released and nothing maps it.
#[derive(Debug)]
struct Physical {
    device: usize,
    bytes: usize,
    mapped: usize,
    released: bool,
}

/// Which memory of the host a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostKind {
    /// Pinned: `cudaHostAlloc`, `cudaMallocHost`.
    Pinned,
    /// Pages of the program that were registered.
    Registered,
    /// Managed: `cudaMallocManaged`.
    Managed,
}

/// Bytes of the host that the program asked of CUDA; never counted as a device's.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct HostBytes {
    pub(super) pinned: usize,
    pub(super) pinned_peak: usize,
    pub(super) managed: usize,
    pub(super) managed_peak: usize,
}

/// All memory of the phantom.
#[derive(Debug)]
pub(super) struct Memory {
    total: usize,
    context: usize,
    base: usize,
    share: usize,
    devices: Vec<Device>,
    blocks: BTreeMap<usize, usize>,
    physical: HashMap<u64, Physical>,
    mappings: BTreeMap<usize, (usize, u64)>,
    next_handle: u64,
    host: BTreeMap<usize, (usize, HostKind)>,
    host_bytes: HostBytes,
}

impl Memory {
    /// Devices of `settings` that share `range` bytes of addresses from `base` on.
    pub(super) fn new(settings: &PhantomSettings, base: usize, range: usize) -> Self {
        let share = range / settings.devices / PAGE * PAGE;
        let base = base.next_multiple_of(PAGE);
        let device = |index: usize| Device {
            used: 0,
            peak: 0,
            // The last page of each part stays free, so that rounding the base up is no harm.
            next: base + index * share,
            end: base + (index + 1) * share - PAGE,
        };
        Self {
            total: settings.total_bytes,
            context: settings.context_bytes,
            base,
            share,
            devices: (0..settings.devices).map(device).collect(),
            blocks: BTreeMap::new(),
            physical: HashMap::new(),
            mappings: BTreeMap::new(),
            next_handle: 1,
            host: BTreeMap::new(),
            host_bytes: HostBytes::default(),
        }
    }

    /// The device that an address belongs to; `None` for one of the host.
    pub(super) fn device_of(&self, address: usize) -> Option<usize> {
        let index = address.checked_sub(self.base)? / self.share;
        (index < self.devices.len()).then_some(index)
    }

    /// Which memory of the host an address lies in; `None` where CUDA gave it not.
    pub(super) fn host_of(&self, address: usize) -> Option<HostKind> {
        let (start, (bytes, kind)) = self.host.range(..=address).next_back()?;
        (address < start + bytes).then_some(*kind)
    }

    /// Bytes of a device that are free.
    pub(super) fn free_bytes(&self, device: usize) -> usize {
        self.total.saturating_sub(self.used_bytes(device))
    }

    /// Bytes of a device that are used, its context among them.
    pub(super) fn used_bytes(&self, device: usize) -> usize {
        let used = self.devices.get(device).map_or(0, |device| device.used);
        self.context.saturating_add(used)
    }

    /// The most that was ever used of a device, its context among it.
    pub(super) fn peak_bytes(&self, device: usize) -> usize {
        let peak = self.devices.get(device).map_or(0, |device| device.peak);
        self.context.saturating_add(peak)
    }

    pub(super) fn host_bytes(&self) -> HostBytes {
        self.host_bytes
    }

    fn take(&mut self, device: usize, bytes: usize) -> Result<(), MemoryError> {
        let free = self.free_bytes(device);
        let found = self.devices.get_mut(device).ok_or(MemoryError::Invalid)?;
        if bytes > free {
            return Err(MemoryError::OutOfMemory);
        }
        found.used += bytes;
        found.peak = found.peak.max(found.used);
        Ok(())
    }

    fn give_back(&mut self, device: usize, bytes: usize) {
        if let Some(found) = self.devices.get_mut(device) {
            found.used = found.used.saturating_sub(bytes);
        }
    }

    /// Addresses without memory behind them: `cuMemAddressReserve`.
    pub(super) fn reserve(&mut self, device: usize, bytes: usize) -> Result<usize, MemoryError> {
        let bytes = bytes
            .checked_next_multiple_of(PAGE)
            .ok_or(MemoryError::OutOfMemory)?;
        let found = self.devices.get_mut(device).ok_or(MemoryError::Invalid)?;
        if bytes > found.end - found.next {
            return Err(MemoryError::OutOfMemory);
        }
        let address = found.next;
        found.next += bytes;
        Ok(address)
    }

    /// A block of a device.
    pub(super) fn allocate(&mut self, device: usize, bytes: usize) -> Result<usize, MemoryError> {
        let counted = bytes
            .checked_next_multiple_of(PAGE)
            .ok_or(MemoryError::OutOfMemory)?;
        self.take(device, counted)?;
        match self.reserve(device, counted) {
            Ok(address) => {
                self.blocks.insert(address, counted);
                Ok(address)
            }
            Err(error) => {
                self.give_back(device, counted);
                Err(error)
            }
        }
    }

    /// Gives a block back.
    pub(super) fn free(&mut self, address: usize) -> Result<(), MemoryError> {
        let bytes = self.blocks.remove(&address).ok_or(MemoryError::Invalid)?;
        let device = self.device_of(address).ok_or(MemoryError::Invalid)?;
        self.give_back(device, bytes);
        Ok(())
    }

    /// Where the block begins that an address lies in, and its bytes.
    pub(super) fn block_at(&self, address: usize) -> Option<(usize, usize)> {
        let (start, bytes) = self.blocks.range(..=address).next_back()?;
        (address < start + bytes).then_some((*start, *bytes))
    }

    /// Memory of a device without an address: `cuMemCreate`.
    pub(super) fn create(&mut self, device: usize, bytes: usize) -> Result<u64, MemoryError> {
        self.take(device, bytes)?;
        let handle = self.next_handle;
        self.next_handle += 1;
        let physical = Physical {
            device,
            bytes,
            mapped: 0,
            released: false,
        };
        self.physical.insert(handle, physical);
        Ok(handle)
    }

    /// Puts memory behind addresses: `cuMemMap`.
    pub(super) fn map(
        &mut self,
        address: usize,
        bytes: usize,
        handle: u64,
    ) -> Result<(), MemoryError> {
        let found = self.physical.get_mut(&handle);
        found.ok_or(MemoryError::Invalid)?.mapped += 1;
        self.mappings.insert(address, (bytes, handle));
        Ok(())
    }

    /// Takes it from behind them again: `cuMemUnmap`.
    pub(super) fn unmap(&mut self, address: usize, bytes: usize) {
        let inside = self.mappings.range(address..address.saturating_add(bytes));
        let gone: Vec<(usize, u64)> = inside.map(|(at, (_, handle))| (*at, *handle)).collect();
        for (at, handle) in gone {
            self.mappings.remove(&at);
            if let Some(physical) = self.physical.get_mut(&handle) {
                physical.mapped -= 1;
            }
            self.drop_unused(handle);
        }
    }

    /// `cuMemRelease`.
    pub(super) fn release(&mut self, handle: u64) -> Result<(), MemoryError> {
        let found = self.physical.get_mut(&handle);
        found.ok_or(MemoryError::Invalid)?.released = true;
        self.drop_unused(handle);
        Ok(())
    }

    /// The handle of the memory behind an address: `cuMemRetainAllocationHandle`.
    pub(super) fn handle_at(&self, address: usize) -> Option<u64> {
        let (start, (bytes, handle)) = self.mappings.range(..=address).next_back()?;
        (address < start + bytes).then_some(*handle)
    }

    fn drop_unused(&mut self, handle: u64) {
        let unused = |physical: &Physical| physical.released && physical.mapped == 0;
        if self.physical.get(&handle).is_some_and(unused)
            && let Some(physical) = self.physical.remove(&handle)
        {
            self.give_back(physical.device, physical.bytes);
        }
    }

    /// Counts memory of the host that the caller made.
    pub(super) fn add_host(&mut self, address: usize, bytes: usize, kind: HostKind) {
        self.host.insert(address, (bytes, kind));
        let all = &mut self.host_bytes;
        let (now, peak) = match kind {
            HostKind::Managed => (&mut all.managed, &mut all.managed_peak),
            HostKind::Pinned | HostKind::Registered => (&mut all.pinned, &mut all.pinned_peak),
        };
        *now += bytes;
        *peak = (*now).max(*peak);
    }

    /// Forgets memory of the host, and says how much it was and which.
    pub(super) fn remove_host(&mut self, address: usize) -> Option<(usize, HostKind)> {
        let (bytes, kind) = self.host.remove(&address)?;
        match kind {
            HostKind::Managed => self.host_bytes.managed -= bytes,
            HostKind::Pinned | HostKind::Registered => self.host_bytes.pinned -= bytes,
        }
        Some((bytes, kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: usize = 1 << 30;

    fn memory(devices: usize) -> Memory {
        let settings = PhantomSettings {
            devices,
            total_bytes: 4 * GIB,
            context_bytes: GIB / 2,
            ..PhantomSettings::default()
        };
        Memory::new(&settings, 0x10_0000_1000, 1 << 40)
    }

    #[test]
    fn a_full_device_gives_nothing_until_something_is_given_back() {
        let mut memory = memory(2);
        let first = memory.allocate(0, 3 * GIB).unwrap();
        assert_eq!(memory.allocate(0, GIB), Err(MemoryError::OutOfMemory));
        assert!(memory.allocate(1, 3 * GIB).is_ok());
        memory.free(first).unwrap();
        assert_eq!(memory.used_bytes(0), GIB / 2);
        assert_eq!(memory.peak_bytes(0), 7 * GIB / 2);
        assert!(memory.allocate(0, GIB).is_ok());
        assert_eq!(memory.free(first), Err(MemoryError::Invalid));
    }

    #[test]
    fn a_block_counts_whole_pages_and_no_request_overflows() {
        let mut memory = memory(1);
        memory.allocate(0, 1).unwrap();
        assert_eq!(memory.used_bytes(0), GIB / 2 + PAGE);
        for bytes in [usize::MAX, usize::MAX - PAGE, 1 << 62] {
            assert_eq!(memory.allocate(0, bytes), Err(MemoryError::OutOfMemory));
        }
        assert_eq!(memory.allocate(1, 1), Err(MemoryError::Invalid));
    }

    #[test]
    fn an_address_tells_its_device() {
        let mut memory = memory(3);
        for device in 0..3 {
            let address = memory.allocate(device, PAGE).unwrap();
            assert_eq!(memory.device_of(address), Some(device));
            assert_eq!(memory.device_of(address + PAGE - 1), Some(device));
            assert_eq!(memory.block_at(address + 1), Some((address, PAGE)));
            assert_eq!(memory.block_at(address + PAGE), None);
        }
        assert_eq!(memory.device_of(0x1000), None);
        assert_eq!(memory.device_of(usize::MAX), None);
    }

    #[test]
    fn mapped_memory_is_given_back_when_it_is_released_and_unmapped_in_either_order() {
        for release_first in [false, true] {
            let mut memory = memory(1);
            let at = memory.reserve(0, GIB).unwrap();
            let handle = memory.create(0, 20 << 20).unwrap();
            memory.map(at, 20 << 20, handle).unwrap();
            assert_eq!(memory.handle_at(at + PAGE), Some(handle));
            if release_first {
                memory.release(handle).unwrap();
                assert_eq!(memory.used_bytes(0), GIB / 2 + (20 << 20));
                memory.unmap(at, GIB);
            } else {
                memory.unmap(at, GIB);
                memory.release(handle).unwrap();
            }
            assert_eq!(memory.used_bytes(0), GIB / 2);
            assert_eq!(memory.release(handle), Err(MemoryError::Invalid));
        }
        assert_eq!(memory(1).create(0, 4 * GIB), Err(MemoryError::OutOfMemory));
    }

    #[test]
    fn memory_of_the_host_is_counted_apart() {
        let mut memory = memory(1);
        memory.add_host(0x5000, 100, HostKind::Pinned);
        memory.add_host(0x6000, 50, HostKind::Managed);
        assert_eq!(memory.host_of(0x5063), Some(HostKind::Pinned));
        assert_eq!(memory.host_of(0x5064), None);
        assert_eq!(memory.remove_host(0x5000), Some((100, HostKind::Pinned)));
        assert_eq!(memory.remove_host(0x5000), None);
        let host = memory.host_bytes();
        assert_eq!((host.pinned, host.pinned_peak, host.managed), (0, 100, 50));
        assert_eq!(memory.used_bytes(0), GIB / 2);
    }
}
