import Glibc
import Testing

@testable import Daemon

@Suite struct `What the machine gives a process` {
  @Test func `texts of proc are read, and those of another form say nothing`() {
    #expect(MachineHealth.unit(in: "0::/system.slice/sallyport.service\n") == "sallyport.service")
    #expect(MachineHealth.unit(in: "0::/\n") == nil)
    let limits = "Limit   Soft Limit\nMax open files            1024                 524288               files\n"
    #expect(MachineHealth.openFiles(in: limits) == 1024 && MachineHealth.openFiles(in: "") == nil)
    #expect(MachineHealth.value("Seccomp", in: "NoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n") == "2")
    #expect(MachineHealth.value("Seccomp", in: "Seccomp_filters:\t1\n") == nil)
  }

  @Test(arguments: [
    (50, 100, HealthFact.State.good), (4, 100, .warning), (0, 100, .failed), (100, 4, .warning), (100, 0, .failed),
  ])
  func `a disk is as full as its room or its inodes`(free: UInt64, inodes: UInt64, state: HealthFact.State) {
    #expect(MachineHealth.judge(free: free, of: 100, inodes: inodes, of: 100, at: "/a").0 == state)
  }

  @Test func `a disk that counts no inodes is judged by its room`() {
    #expect(MachineHealth.judge(free: 50, of: 100, inodes: 0, of: 0, at: "/a").0 == .good)
  }

  @Test func `the facts of this process have its descriptors`() {
    #expect(MachineHealth.facts(of: getpid()).contains { $0.text.contains("descriptors are open") })
  }
}
