@testable import Review
@testable import Traffic
@testable import Forward
@testable import Features
import Configuration
import Observability
import Testing

@Suite struct `What the kernel lacks` {
  @Test func `is said by check, where the sandbox would restrict files`() {
    let notes = Check.kernelNotes(.on, hasLandlock: false)
    #expect(notes.count == 1 && notes[0].severity == .notice && notes[0].message.contains("no Landlock"))
    #expect(Check.kernelNotes(.landlock, hasLandlock: false).count == 1)
    #expect(Check.kernelNotes(.seccomp, hasLandlock: false).isEmpty)
    #expect(Check.kernelNotes(.off, hasLandlock: false).isEmpty)
    #expect(Check.kernelNotes(.on, hasLandlock: true).isEmpty)
  }
}
