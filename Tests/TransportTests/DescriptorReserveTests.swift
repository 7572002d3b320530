import Glibc
import TestSupport
import Testing

@testable import Transport

@Suite struct `Descriptors that a reload needs` {
  @Test func `connections leave what a reload, the loops and what is open take`() {
    func each(_ limit: Int, workers: Int = 2, wanted: Int = 1024, open: Int = 20) -> Int {
      DescriptorReserve.connections(limit: limit, open: open, workers: workers, wanted: wanted)
    }
    #expect(each(20_000) == 1024)
    #expect(each(.max) == 1024)
    for limit in [256, 1024, 2048] {
      let used = each(limit) * 2 + 20 + DescriptorReserve.process + 2 * DescriptorReserve.loop
      #expect(each(limit) < 1024 && limit - used >= 64, "limit \(limit)")
    }
    // With hardly any there is a connection at least, and the reserve is a quarter.
    #expect(each(48) == 1)
    #expect(each(0, workers: .max) == 1)
    #expect(DescriptorReserve.size(of: 48) == 12 && DescriptorReserve.size(of: 1 << 20) == 64)
  }

  @Test func `the limit that connections need is the smallest that leaves them all of them`() {
    for (wanted, workers, open) in [(512, 1, 20), (1024, 2, 80), (7, 1, 9), (1, 1, 0), (50, 3, 4), (4096, 64, 300)] {
      func each(_ limit: Int) -> Int {
        DescriptorReserve.connections(limit: limit, open: open, workers: workers, wanted: wanted + 1)
      }
      let limit = DescriptorReserve.limit(for: wanted, workers: workers, open: open)
      #expect(each(limit) >= wanted, "\(wanted) × \(workers), \(open) open: \(limit)")
      #expect(wanted == 1 || each(limit - 1) < wanted, "\(wanted) × \(workers), \(open) open: \(limit)")
    }
    #expect(DescriptorReserve.limit(for: .max, workers: .max, open: .max) > 0)
  }

  @Test func `the highest numbers are the reserve's`() {
    var limit = rlimit()
    getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    let count = Int32(clamping: limit.rlim_cur)
    #expect(
      DescriptorReserve.holds(count - 1)
        && DescriptorReserve.holds(count - Int32(DescriptorReserve.size(of: Int(count)))))
    #expect(
      !DescriptorReserve.holds(count - Int32(DescriptorReserve.size(of: Int(count))) - 1) && !DescriptorReserve.holds(3)
    )
  }
}
